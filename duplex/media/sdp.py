"""Offers, checked and repaired before aiortc sees them, and answers finished after it: text in, text out.

Clients write SDP in many ways and attackers in more. `read` takes what we understand from an offer, in time that grows
with its length alone, and writes a canonical one for aiortc; whatever is not understood never gets further. Sections
that we do not take (a second camera, a codec we lack) are answered with port 0 in their place.

Repaired, because seen in the field: no `setup` (actpass), no `mid` (numbered), no `rtcp-mux` (answered with it: there
is one port), ICE data and fingerprints at session level, bare LF, static payload types without `rtpmap`.

Source: RFC 8866; RFC 8829 (JSEP); RFC 9143 (BUNDLE); RFC 8842 (DTLS); RFC 3551 (static payload types).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from aiortc.sdp import H264Profile, parse_h264_profile_level_id

from duplex.media import candidates
from duplex.media.codec import AudioCodec

_MESSAGE_BYTES_MAX = 65_536
"""Largest data channel message that a client takes which does not say it. Source: RFC 8841 §6.1."""
_SECTIONS_MAX = 16
_MID_URI = "urn:ietf:params:rtp-hdrext:sdes:mid"
_LEVEL_URI = "urn:ietf:params:rtp-hdrext:ssrc-audio-level"
_STATIC = {0: "PCMU/8000", 8: "PCMA/8000"}
_AUDIO = {
    "opus/48000/2": "opus",
    "pcmu/8000": "PCMU",
    "pcmu/8000/1": "PCMU",
    "pcma/8000": "PCMA",
    "pcma/8000/1": "PCMA",
}
_AUDIO_ORDER = ("opus", "PCMU", "PCMA")
_H264_PROFILES = (H264Profile.PROFILE_BASELINE, H264Profile.PROFILE_CONSTRAINED_BASELINE)
_DIGESTS = {"sha-256": 32, "sha-384": 48, "sha-512": 64}
_DIRECTIONS = ("sendrecv", "sendonly", "recvonly", "inactive")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`{|}~-]{1,32}")
_M_LINE = re.compile(r"([a-z]{1,16}) ([0-9]{1,5})(?:/[0-9]+)? ([A-Z/]{1,32}) (.+)")
_UFRAG = re.compile(r"[A-Za-z0-9+/]{4,256}")
_PWD = re.compile(r"[A-Za-z0-9+/]{22,256}")


class OfferError(Exception):
    """An offer is refused.

    Attributes:
        status: HTTP status: 400 malformed, 413 too large, 422 understood but of no use, 409 not now.
        message: what to tell the client.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """An RTP section that we take."""

    mid: str
    mid_id: int | None
    """Header extension id of the mid; None where not offered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedAudio(Accepted):
    codec: AudioCodec
    level_id: int | None
    """Header extension id of the audio level."""
    sends: bool
    """The client sends."""
    receives: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedVideo(Accepted):
    codec: str
    """`VP8` or `H264`."""
    payload_type: int
    profile: str = ""
    """H.264 profile-level-id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What an offer comes to."""

    sdp: str
    """The canonical offer for aiortc: the sections that we take."""
    audio: AcceptedAudio
    video: AcceptedVideo | None
    channel: bool
    """A data channel is offered."""
    message_bytes_max: int
    """Largest message that the client takes on it; 0: any."""
    sections: tuple[str, ...]
    """Per section of the client's offer: its transport protocol if taken, else the whole answer to it."""
    taken: tuple[bool, ...]
    bundled: bool


@dataclass(slots=True)
class _Section:
    kind: str
    port: int
    proto: str
    formats: list[str]
    mid: str = ""
    lines: dict[str, list[str]] = field(default_factory=dict)

    def first(self, name: str) -> str | None:
        return self.lines[name][0] if name in self.lines else None

    @property
    def offered(self) -> bool:
        return self.port != 0 or "bundle-only" in self.lines

    @property
    def direction(self) -> str:
        return next((d for d in _DIRECTIONS if d in self.lines), "sendrecv")

    @property
    def refusal(self) -> str:
        mid = f"a=mid:{self.mid}\r\n" if self.mid else ""
        formats = " ".join(self.formats)
        return f"m={self.kind} 0 {self.proto} {formats}\r\nc=IN IP4 0.0.0.0\r\n{mid}a=inactive\r\n"


def read(
    text: str,
    *,
    bytes_max: int,
    candidates_max: int,
    loopback: bool,
    denied: Sequence[candidates.Network] = (),
) -> Offer:
    """Check an offer and take from it what we understand.

    Args:
        text: the body of the request.
        bytes_max, candidates_max: limits; an offer over them is refused before it is parsed.
        loopback: whether loopback candidates are checked.
        denied: networks whose candidates are not.
    Raises:
        OfferError: see its statuses; the message names the section where there is one.
    """
    if len(text) > bytes_max or len(text.encode()) > bytes_max:
        raise OfferError(413, f"the offer is larger than {bytes_max} bytes")
    if not text.lstrip().startswith("v=0"):
        raise OfferError(400, "the body is not an SDP offer (it does not begin with v=0)")
    session, sections = _split(text.lstrip())
    count = sum(len(s.lines.get("candidate", ())) for s in (session, *sections))
    if count > candidates_max:
        raise OfferError(400, f"the offer has {count} ICE candidates, more than {candidates_max}")
    bundle = _name(session, sections)
    index, audio = _audio(sections)
    mates = [s for s in sections if s.mid in bundle] if bundle else [sections[index]]
    if sections[index] not in mates:
        raise OfferError(422, f"audio section {index} is not in the BUNDLE group")
    channel = next((s for s in sections if _is_channel(s)), None)
    if channel is not None and channel not in mates:
        raise OfferError(422, "the data channel is not bundled with the audio: offer a=group:BUNDLE")
    video_section, video = _video(mates)
    taken = [s for s in sections if s is sections[index] or s is channel or s is video_section]
    transport = _transport(session, [sections[index], *mates])
    found = [line for s in (session, *mates) for line in s.lines.get("candidate", ())]
    lines = [f"a=candidate:{line}" for line in candidates.usable(found, loopback=loopback, denied=denied)]
    return Offer(
        sdp=_canonical(taken, audio, video, transport, lines),
        audio=audio,
        video=video,
        channel=channel is not None,
        message_bytes_max=_MESSAGE_BYTES_MAX if channel is None else _message_bytes_max(channel),
        sections=tuple(s.proto if s in taken else s.refusal for s in sections),
        taken=tuple(s in taken for s in sections),
        bundled=bool(bundle),
    )


def _split(text: str) -> tuple[_Section, list[_Section]]:
    """Sort the lines of an offer into its session part and its sections."""
    session = _Section("session", 0, "", [])
    sections: list[_Section] = []
    part = session
    for line in text.splitlines():
        line = line.rstrip()
        if line.startswith("m="):
            match = _M_LINE.fullmatch(line[2:])
            if match is None:
                raise OfferError(400, f"section {len(sections)}: the m= line is malformed")
            if len(sections) == _SECTIONS_MAX:
                raise OfferError(400, f"the offer has more than {_SECTIONS_MAX} sections")
            part = _Section(match[1], int(match[2]), match[3], match[4].split()[:64])
            sections.append(part)
        elif line.startswith("a="):
            name, _, value = line[2:].partition(":")
            part.lines.setdefault(name, []).append(value)
    if not sections:
        raise OfferError(400, "the offer has no media section")
    return session, sections


def _name(session: _Section, sections: list[_Section]) -> set[str]:
    """Give every section its mid and return those of the BUNDLE group (empty without one)."""
    group = next((v.split()[1:] for v in session.lines.get("group", ()) if v.startswith("BUNDLE")), [])
    names = [s.first("mid") for s in sections]
    unused = iter([m for m in group if m not in names] if None in names else [])
    for i, (section, name) in enumerate(zip(sections, names, strict=True)):
        section.mid = name if name is not None else next(unused, str(i))
        if not _TOKEN.fullmatch(section.mid):
            raise OfferError(400, f"section {i}: the mid is malformed")
    if len({s.mid for s in sections}) < len(sections):
        raise OfferError(400, "two sections have the same mid")
    return {s.mid for s in sections} & set(group)


def _formats(section: _Section) -> Iterator[tuple[int, str, str]]:
    """Yield payload type, lower-case encoding and format parameters, in the order of the m= line."""
    maps = dict(_STATIC)
    for value in section.lines.get("rtpmap", ()):
        number, _, encoding = value.partition(" ")
        if number.isdecimal() and len(number) <= 3:
            maps[int(number)] = encoding.strip()
    parameters = dict(value.split(" ", 1) for value in section.lines.get("fmtp", ()) if " " in value)
    for number in section.formats:
        if number.isdecimal() and len(number) <= 3 and int(number) < 128 and int(number) in maps:
            yield int(number), maps[int(number)].lower(), parameters.get(number, "")


def _extensions(section: _Section) -> dict[str, int]:
    """Return the ids (those that fit one-byte headers) of the header extensions that we use."""
    found = {}
    for value in section.lines.get("extmap", ()):
        number, _, uri = value.partition(" ")
        number = number.partition("/")[0]
        if number.isdecimal() and len(number) <= 2 and 0 < int(number) < 15:
            found[uri.split(" ")[0]] = int(number)
    return found


def _audio(sections: list[_Section]) -> tuple[int, AcceptedAudio]:
    """Return the first usable audio section and what we take of it."""
    fault: OfferError | None = None
    for i, section in enumerate(sections):
        if section.kind != "audio" or not section.offered:
            continue
        codecs: dict[str, int] = {}
        for payload_type, encoding, _ in _formats(section):
            if encoding in _AUDIO:
                codecs.setdefault(_AUDIO[encoding], payload_type)
        name = next((n for n in _AUDIO_ORDER if n in codecs), None)
        if name is None or "SAVP" not in section.proto:
            reason = "offers no codec in common (we have opus, PCMU, PCMA)" if name is None else "is not DTLS-SRTP"
            fault = fault or OfferError(422, f"audio section {i} (mid {section.mid!r}) {reason}")
            continue
        extensions = _extensions(section)
        return i, AcceptedAudio(
            mid=section.mid,
            mid_id=extensions.get(_MID_URI) if len(section.mid) <= 16 else None,
            codec=AudioCodec(name=name, payload_type=codecs[name], clock_rate=48_000 if name == "opus" else 8_000),
            level_id=extensions.get(_LEVEL_URI),
            sends=section.direction in ("sendrecv", "sendonly"),
            receives=section.direction in ("sendrecv", "recvonly"),
        )
    raise fault or OfferError(422, "the offer has no audio section")


def _video(mates: list[_Section]) -> tuple[_Section | None, AcceptedVideo | None]:
    """Return the first bundled section with a camera that we can decode; a call goes on without one."""
    for section in mates:
        if section.kind != "video" or not section.offered or "SAVP" not in section.proto:
            continue
        if section.direction not in ("sendrecv", "sendonly"):
            continue
        for payload_type, encoding, parameters in sorted(_formats(section), key=lambda f: f[1] != "vp8/90000"):
            profile = _h264_profile(parameters) if encoding == "h264/90000" else ""
            if encoding == "vp8/90000" or profile:
                return section, AcceptedVideo(
                    mid=section.mid,
                    mid_id=_extensions(section).get(_MID_URI),
                    codec=encoding.partition("/")[0].upper(),
                    payload_type=payload_type,
                    profile=profile,
                )
    return None, None


def _h264_profile(parameters: str) -> str:
    """Return the profile-level-id if it is one we decode in the packetization we read, else nothing."""
    values = dict(p.strip().split("=", 1) for p in parameters.lower().split(";") if "=" in p)
    profile = values.get("profile-level-id", "42e01f")
    if values.get("packetization-mode") != "1" or not re.fullmatch(r"[0-9a-f]{6}", profile):
        return ""
    try:
        return profile if parse_h264_profile_level_id(profile)[0] in _H264_PROFILES else ""
    except ValueError:
        return ""


def _is_channel(section: _Section) -> bool:
    return section.kind == "application" and section.offered and "DTLS/SCTP" in section.proto


def _transport(session: _Section, mates: list[_Section]) -> list[str]:
    """Return the lines of ICE and DTLS that all sections share; the audio's own come first, then the session's."""

    def wanted(name: str) -> str | None:
        return next((v for s in (mates[0], session, *mates[1:]) if (v := s.first(name)) is not None), None)

    ufrag, pwd = wanted("ice-ufrag") or "", wanted("ice-pwd") or ""
    if not _UFRAG.fullmatch(ufrag) or not _PWD.fullmatch(pwd):
        raise OfferError(400, "ICE user fragment or password is missing or malformed")
    setup = wanted("setup") or "actpass"
    if setup not in ("actpass", "active", "passive"):
        raise OfferError(400, f"a=setup:{setup[:16]} is not possible in an offer")
    prints = {
        p: None for s in (mates[0], session, *mates[1:]) for p in map(_fingerprint, s.lines.get("fingerprint", ())) if p
    }
    if not prints:
        raise OfferError(422, "the offer has no certificate fingerprint that we can check (sha-256, sha-384, sha-512)")
    lite = ["a=ice-lite"] if "ice-lite" in session.lines else []
    return [
        *lite,
        f"a=ice-ufrag:{ufrag}",
        f"a=ice-pwd:{pwd}",
        *(f"a=fingerprint:{p}" for p in prints),
        f"a=setup:{setup}",
    ]


def _fingerprint(value: str) -> str | None:
    """Return a fingerprint that aiortc can check, canonical, or None."""
    digest, _, octets = value.lower().partition(" ")
    size = _DIGESTS.get(digest, 0)
    if size and re.fullmatch(r"[0-9a-f]{2}(:[0-9a-f]{2})+", octets) and len(octets) == 3 * size - 1:
        return f"{digest} {octets.upper()}"
    return None


def _canonical(
    taken: list[_Section], audio: AcceptedAudio, video: AcceptedVideo | None, transport: list[str], found: list[str]
) -> str:
    """Write the offer that aiortc gets."""
    lines = ["v=0", "o=- 0 0 IN IP4 0.0.0.0", "s=-", "t=0 0"]
    lines += [line for line in transport if line == "a=ice-lite"]
    lines += ["a=group:BUNDLE " + " ".join(s.mid for s in taken), "a=msid-semantic: WMS *"]
    for section in taken:
        if section.kind == "application":
            lines += _channel_lines(section)
        elif section.kind == "audio":
            rate = "48000/2" if audio.codec.name == "opus" else "8000"
            lines += _rtp_lines(section, audio, audio.codec.payload_type, f"{audio.codec.name}/{rate}")
            lines += [f"a=extmap:{audio.level_id} {_LEVEL_URI}"] if audio.level_id is not None else []
        elif video is not None:
            lines += _rtp_lines(section, video, video.payload_type, f"{video.codec}/90000")
            lines += [f"a=rtcp-fb:{video.payload_type} nack pli"]
            if video.codec == "H264":
                lines += [
                    f"a=fmtp:{video.payload_type} level-asymmetry-allowed=1;packetization-mode=1;"
                    f"profile-level-id={video.profile}"
                ]
        lines += [line for line in transport if line != "a=ice-lite"] + found
        found = []
    return "\r\n".join(lines) + "\r\n"


def _rtp_lines(section: _Section, accepted: Accepted, payload_type: int, encoding: str) -> list[str]:
    lines = [f"m={section.kind} 9 UDP/TLS/RTP/SAVPF {payload_type}", "c=IN IP4 0.0.0.0", f"a=mid:{section.mid}"]
    lines += [f"a={section.direction}", "a=rtcp-mux", f"a=rtpmap:{payload_type} {encoding}"]
    return lines + ([f"a=extmap:{accepted.mid_id} {_MID_URI}"] if accepted.mid_id is not None else [])


def _channel_lines(section: _Section) -> list[str]:
    port = section.first("sctp-port")
    old = port is None and section.proto == "DTLS/SCTP"
    port = section.formats[0] if old else port or "5000"
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise OfferError(400, f"data channel section (mid {section.mid!r}): the SCTP port is malformed")
    m = f"m=application 9 DTLS/SCTP {port}" if old else "m=application 9 UDP/DTLS/SCTP webrtc-datachannel"
    own = [f"a=sctpmap:{port} webrtc-datachannel 1024"] if old else [f"a=sctp-port:{port}"]
    return [m, "c=IN IP4 0.0.0.0", f"a=mid:{section.mid}", *own, f"a=max-message-size:{_message_bytes_max(section)}"]


def _message_bytes_max(section: _Section) -> int:
    size = section.first("max-message-size") or ""
    return int(size) if size.isdecimal() and len(size) <= 10 else _MESSAGE_BYTES_MAX


def finish(answer: str, offer: Offer) -> str:
    """Return aiortc's answer as the client needs it: every section of its offer in place, ours completed."""
    session, *blocks = re.split(r"(?m)^(?=m=)", answer.replace("\r\n", "\n"))
    if not offer.bundled:
        session = re.sub(r"a=group:BUNDLE[^\n]*\n", "", session)
    parts, own = [session], iter(blocks)
    for section, taken in zip(offer.sections, offer.taken, strict=True):
        if not taken:
            parts.append(section.replace("\r\n", "\n"))
            continue
        block = re.sub(r"^(m=\w+ \d+) \S+", rf"\1 {section}", next(own))
        if offer.audio.codec.name == "opus":
            fmtp = f"a=fmtp:{offer.audio.codec.payload_type} minptime=10;useinbandfec=1\n"
            block = re.sub(r"(?m)^(a=rtpmap:\d+ opus/48000/2\n)", r"\1" + fmtp, block)
        parts.append(block)
    return "".join(parts).replace("\n", "\r\n")
