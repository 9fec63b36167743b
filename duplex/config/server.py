"""The edge to clients: what listens, whom it lets in, and how much of each it takes."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, IPvAnyNetwork, SecretStr, model_validator

from duplex.config.section import Ms, Section


class ServerSettings(Section):
    """What listens, and what it refuses."""

    host: str = "127.0.0.1"
    """Address to bind. Off loopback the server is reachable by others: see docs/security.md."""
    port: int = Field(8080, ge=0, le=65535)
    """TCP port of HTTP and WebSocket; 0 takes a free one."""
    listen_backlog: int = Field(128, ge=1, le=65_535)
    """Connections that wait to be accepted; past it the system refuses them."""
    sessions_max: int | None = Field(None, ge=1)
    """Live sessions admitted at once, whatever is measured; unset takes what the stages can carry (`[admission]`)."""
    sdp_bytes_max: int = Field(64 * 1024, ge=1024)
    """Largest SDP offer in bytes; a larger one answers 413."""
    candidates_max: int = Field(64, ge=1)
    """Most ICE candidates in an offer; more answer 400."""
    event_bytes_max: int = Field(16 * 1024 * 1024, ge=1024)
    """Largest client event in bytes; a larger one closes the WebSocket with 1009."""
    event_structured_chars_max: int = Field(1024 * 1024, ge=1024)
    """Characters of an event, or of another JSON body, past which it may only be a few long strings: audio, images."""
    event_commas_max: int = Field(64, ge=8, le=10_000)
    """Commas in such a one. Values beside each other need commas; those within each other meet `event_depth_max`."""
    event_brackets_max: int = Field(10_000, ge=100, le=1_000_000)
    """Objects and arrays in any other: they are what is slow to read."""
    event_depth_max: int = Field(32, ge=8, le=200)
    """Deepest nesting of objects and arrays; the deepest event has 6, without the schemas of tools."""
    event_burst_max: int = Field(16, ge=1, le=10_000)
    """Events of one WebSocket client taken in a row before others get their turn."""
    early_events_max: int = Field(256, ge=1, le=10_000)
    """Events kept for a client that has not said yet that it can take any; past it the oldest go."""
    connect_timeout_s: float = Field(12.0, gt=0, le=60)
    """A peer that has not connected its media within this time is closed."""
    vanish_timeout_s: float = Field(8.0, gt=0, le=60)
    """A peer from which nothing has arrived (ICE consent, RTP, RTCP) for this long is closed."""
    websocket_ping_s: float = Field(10.0, gt=0)
    """Heartbeat of WebSocket sessions; a missing pong within half of it closes."""
    outbox_bytes_max: int = Field(8 * 1024 * 1024, ge=1024)
    """Events waiting for a client that does not read; past it the session is closed with a reason."""
    request_timeout_s: float = Field(10.0, gt=0, le=60)
    """Time in which a request's body has to arrive."""
    head_timeout_s: float = Field(5.0, gt=0, le=60)
    """Time in which a connection's TLS handshake and each request's head have to arrive; one that waits longer is closed."""
    ice_denied: tuple[IPvAnyNetwork, ...] = ()
    """Networks whose addresses in an offer are never tried, e.g. private ones, besides link-local, multicast, reserved and
    (unless the server is bound to loopback) loopback addresses, which never are."""
    session_bytes_max: int = Field(1024 * 1024, ge=1024)
    """Largest session object beside an offer in bytes; a larger one answers 413."""
    backlog_ms_max: Ms = 10_000
    """Audio of a WebSocket client that waits to be analysed; over it the socket is not read until it is less."""
    backlog_look_s: float = Field(0.02, gt=0, le=1)
    """Time between looks whether it is less."""
    close_timeout_s: float = Field(2.0, gt=0, le=30)
    """Time that a closing WebSocket has to take its last events; then the connection is cut."""
    resume_window_s: float = Field(30.0, ge=0, le=3600)
    """Time in which a client that asked for it may come back to its conversation after its connection was lost; 0: none may."""
    detached_max: int = Field(100, ge=0, le=10_000)
    """Sessions that wait for their client at once, each in its place; one more that is lost ends."""
    side_channels_max: int = Field(4, ge=0, le=100)
    """Side channels (`?call_id=`) onto one call at a time; 0: none is taken."""
    ended_calls_max: int = Field(1000, ge=0, le=100_000)
    """Ended sessions whose ids are remembered, so that a late hangup is no error; past it the oldest are forgotten."""
    drain_timeout_s: float = Field(30.0, ge=0, le=3600)
    """Time that a stopping server gives its sessions to end by themselves; a second signal ends them at once."""
    starting_retry_s: int = Field(2, ge=1, le=3600)
    """Told in Retry-After by a server that loads its model, or stops."""
    tidy_every_s: float = Field(2.0, gt=0, le=3600)
    """Time between looks whether the last session has left; then the memory of all of them is given back at once."""
    page_dir: Path | None = None
    """Folder of the built page; unset takes `web_client/dist` beside the package."""
    tenant_header: str | None = Field(None, min_length=1)
    """Name of the request header that says whose session it is. It is believed from `trusted_proxies`, and without any from
    loopback addresses alone; the proxy has to set it on every request. Unset: a session is its key's."""
    tenant_chars_max: int = Field(64, ge=1, le=1000)
    """Longest name in it; a longer one answers 400."""
    cors_origins: tuple[str, ...] = ()
    """Browser origins, besides the server's own page, that may call the HTTP routes; `*` for any."""
    api_keys: dict[str, SecretStr] = Field(default_factory=dict)
    """API keys by name, 16 characters or more each; with one, every request needs one. The name is the session's tenant."""
    api_keys_file: Path | None = None
    """File with a line `name=key` for each further API key."""
    api_keys_file_bytes_max: int = Field(1024 * 1024, ge=64)
    """Largest such file; a larger one stops the start."""
    insecure: bool = False
    """Start without API keys on an address that others can reach: everybody may use the server."""
    client_secrets_max: int = Field(1000, ge=1, le=100_000)
    """Live short-lived secrets of one API key; more answer 429."""
    client_secrets_retry_s: int = Field(60, ge=1, le=86_400)
    """Told then in Retry-After."""
    client_secret_session_bytes_max: int = Field(64 * 1024, ge=1024)
    """Largest body of a request for a short-lived secret in bytes; a larger one answers 413."""
    tls: bool = False
    """Serve HTTPS: with the certificate below, else with one that the server makes and signs itself."""
    tls_certificate: Path | None = None
    """Certificate chain in PEM; needs `tls_key`, and turns TLS on."""
    tls_key: Path | None = None
    """The certificate's private key in PEM, without a passphrase."""
    tls_dir: Path | None = None
    """Folder of the self-signed certificate and its key; unset takes `duplex` in the user's cache folder."""
    tls_days: int = Field(365, ge=1, le=3650)
    """For so many days a certificate is valid that the server makes."""
    tls_renew_days: int = Field(30, ge=0, le=3650)
    """A server that starts makes a new one if the last has no more days than this."""
    requests_per_min: int = Field(600, ge=1)
    """Requests of one address (IPv6: one /64) in a minute; more answer 429. Loopback addresses are not counted."""
    sessions_per_min: int = Field(60, ge=1)
    """Sessions opened in a minute by one address, counted as above, and with one short-lived secret; more answer 429."""
    key_requests_per_min: int = Field(6000, ge=1)
    """Requests with one API key, and the secrets made with it, in a minute; more answer 429."""
    key_sessions_per_min: int = Field(600, ge=1)
    """Sessions opened in a minute with one API key and the secrets made with it; more answer 429."""
    caller_sessions_max: int = Field(20, ge=1)
    """Live sessions at a time of one address that comes without an API key of its own, counted as above, and of one
    short-lived secret; more answer 429."""
    key_sessions_max: int = Field(200, ge=1)
    """Live sessions at a time with one API key and the secrets made with it; more answer 429."""
    sessions_retry_s: int = Field(5, ge=1, le=3600)
    """Told in Retry-After to who has as many live sessions as it may."""
    callers_max: int = Field(10_000, ge=100)
    """Addresses, and secrets, that are counted at once; past it those that asked longest ago begin anew."""
    trusted_proxies: tuple[IPvAnyNetwork, ...] = ()
    """Addresses or networks of proxies whose X-Forwarded-For is believed; without any it is ignored."""

    @model_validator(mode="after")
    def _certificate_and_key(self) -> ServerSettings:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key need each other")
        return self

    @model_validator(mode="after")
    def _renewed_before_its_end(self) -> ServerSettings:
        if self.tls_renew_days >= self.tls_days:
            raise ValueError("tls_renew_days: fewer than tls_days, or a certificate is made at every start")
        return self
