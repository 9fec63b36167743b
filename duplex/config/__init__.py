"""Every bound, timeout and threshold of the server: one frozen tree, read once at start.

Order of precedence: command-line flags, then environment (`DUPLEX_SERVER__PORT=8080`), then a TOML file, then the
defaults of the sections. A bad value stops the start with a message that names the key. These modules are the documentation
of every setting; `duplex serve --help` and docs/configuration.md point here.
"""

from duplex.config.records import RecordingSettings, TelemetrySettings
from duplex.config.senses import BargeInSettings, CameraSettings, EchoSettings, MediaSettings, TurnSettings
from duplex.config.server import ServerSettings
from duplex.config.session import ConversationSettings, SessionSettings
from duplex.config.settings import CLIENT_KEY_VARIABLE, ConfigError, ModelSettings, Settings, load
from duplex.config.tools import ToolSettings
from duplex.config.unfinished import UnfinishedSettings
from duplex.config.work import AdmissionSettings, PacingSettings, SchedulingSettings, StageSettings

__all__ = [
    "AdmissionSettings",
    "BargeInSettings",
    "CLIENT_KEY_VARIABLE",
    "CameraSettings",
    "ConfigError",
    "ConversationSettings",
    "EchoSettings",
    "MediaSettings",
    "ModelSettings",
    "PacingSettings",
    "RecordingSettings",
    "SchedulingSettings",
    "ServerSettings",
    "SessionSettings",
    "Settings",
    "StageSettings",
    "TelemetrySettings",
    "ToolSettings",
    "TurnSettings",
    "UnfinishedSettings",
    "load",
]
