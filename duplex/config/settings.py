"""The whole configuration, and how it is read."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from duplex.config.records import RecordingSettings, TelemetrySettings
from duplex.config.section import Section
from duplex.config.senses import BargeInSettings, CameraSettings, EchoSettings, MediaSettings, TurnSettings
from duplex.config.server import ServerSettings
from duplex.config.session import ConversationSettings, SessionSettings
from duplex.config.tools import ToolSettings
from duplex.config.unfinished import UnfinishedSettings
from duplex.config.work import AdmissionSettings, PacingSettings, SchedulingSettings, StageSettings


class ModelSettings(Section):
    """Which model pack, and its own options."""

    pack: str = "local"
    """Name in the entry-point group `duplex.models`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Checked by the pack itself."""


CLIENT_KEY_VARIABLE = "DUPLEX_API_KEY"
"""Environment variable of the commands that reach a server: the key they bring. It is no setting."""
_TARGET_MS_MAX = 5000
"""Lead target and one chunk, generously."""


class Settings(BaseSettings):
    """The whole configuration."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix="DUPLEX_", env_nested_delimiter="__")

    server: ServerSettings = ServerSettings()
    media: MediaSettings = MediaSettings()
    turn: TurnSettings = TurnSettings()
    unfinished: UnfinishedSettings = UnfinishedSettings()
    barge_in: BargeInSettings = BargeInSettings()
    echo: EchoSettings = EchoSettings()
    pacing: PacingSettings = PacingSettings()
    scheduling: SchedulingSettings = SchedulingSettings()
    conversation: ConversationSettings = ConversationSettings()
    session: SessionSettings = SessionSettings()
    tools: ToolSettings = ToolSettings()
    stages: StageSettings = StageSettings()
    admission: AdmissionSettings = AdmissionSettings()
    camera: CameraSettings = CameraSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    recording: RecordingSettings = RecordingSettings()
    model: ModelSettings = ModelSettings()
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe lines that are logged; none holds what was said."""
    threads: int | None = Field(None, ge=1)
    """Thread budget of the model; unset takes the machine's cores."""

    @model_validator(mode="after")
    def _reserve_fits(self) -> Settings:
        """What is made ahead has to be kept: a target of a few seconds, the reserve, and a chunk."""
        room = self.pacing.generated_ms_max - _TARGET_MS_MAX
        if self.scheduling.policy == "listener" and self.scheduling.spare_lead_ms > max(0, room):
            raise ValueError(
                f"scheduling.spare_lead_ms: at most pacing.generated_ms_max − {_TARGET_MS_MAX} = {max(0, room)}"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Put the TOML file named by the class's configuration under the environment."""
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls))


class ConfigError(Exception):
    """A setting is wrong; the message names the key and says what it takes."""


def load(path: Path | None = None, **flags: Any) -> Settings:
    """Read the configuration.

    Args:
        path: TOML file; None reads none.
        flags: nested values that win over all else, e.g. `server={"port": 0}`.
    Raises:
        ConfigError: the file is missing or unreadable, or a value is unknown or out of range.
    """
    if path is not None and not path.is_file():
        raise ConfigError(f"configuration file not found: {path}")

    class _Sourced(Settings):
        model_config = SettingsConfigDict(toml_file=path)

    unknown = sorted(k for k in os.environ if k.startswith("DUPLEX_") and not _names_a_setting(k))
    if unknown:
        raise ConfigError(f"unknown environment setting: {', '.join(unknown)}")
    try:
        return _Sourced(**flags)
    except ValidationError as error:
        lines = [": ".join(filter(None, (".".join(map(str, e["loc"])), e["msg"]))) for e in error.errors()]
        raise ConfigError("bad configuration\n  " + "\n  ".join(lines)) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"bad configuration: {path} is not TOML: {error}") from error
    except ValueError as error:  # JSON in an environment value
        raise ConfigError(f"bad configuration: {error}") from error


def _names_a_setting(variable: str) -> bool:
    if variable == CLIENT_KEY_VARIABLE:
        return True
    head = variable.removeprefix("DUPLEX_").lower().split("__")[0]
    return head in Settings.model_fields
