"""What the objects of a server share."""

from dataclasses import dataclass, field

from ollie.backends.registry import Backends
from ollie.olliesrv.events import Events
from ollie.olliesrv.settings.config import Config
from ollie.olliesrv.settings.models import Models
from ollie.olliesrv.settings.profiles import Profiles
from ollie.olliesrv.toolserver.approvals import Asked
from ollie.olliesrv.toolserver.places import Settings
from ollie.protocol.discovery import Catalog
from ollie.store.sqlite import Store


@dataclass
class Services:
    """What the objects of a server share.

    Args:
        config: the configuration.
        store: what must survive.
        backends: the providers of models.
        models: what they offer.
        catalog: the tools of this host.
        profiles: the ways of working.
        toolsrv: how tool servers are run.
        address: the dial string by which clients reach the server.
        scratch: the directory of the sessions' scratch directories.
        private: Ollie's own directories, where no agent may work.
        asked: counts what asks for approval.
        events: told what happens.
    """

    config: Config
    store: Store
    backends: Backends
    models: Models
    catalog: Catalog
    profiles: Profiles
    toolsrv: Settings
    address: str
    scratch: str
    private: tuple[str, ...]
    asked: Asked = field(default_factory=Asked)
    events: Events = field(default_factory=Events)
