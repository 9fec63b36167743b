"""Rows of a `story`'s table that come together in many lifecycles; a row that begins with a transport's name is of that one only."""

from __future__ import annotations


def user(item: str, after: str, content: str) -> str:
    """Return how an item of the user comes into the conversation."""
    return f"""
        conversation.item.added                     {item} user completed {content} after {after}
        conversation.item.done                      {item} user completed {content} after {after}
    """


def opening(reply: str, item: str, after: str, kind: str = "audio") -> str:
    """Return how a response begins, up to its first delta."""
    return f"""
        response.created                            {reply} in_progress
        rate_limits.updated
        response.output_item.added                  {reply} 0 {item} assistant in_progress
        conversation.item.added                     {item} assistant in_progress after {after}
        response.content_part.added                 {reply} {item} 0 0 {kind}
    """


def closing(reply: str, item: str, after: str, words: str, ended: str = "completed", heard: str | None = None) -> str:
    """Return how what is open of a spoken response ends; `heard`: what its item holds, if that is not all of it."""
    status = "completed" if ended == "completed" else "incomplete"
    held = words if heard is None else heard
    return f"""
        response.output_audio.done                  {reply} {item} 0 0
        response.output_audio_transcript.done       {reply} {item} 0 0 {words!r}
        response.content_part.done                  {reply} {item} 0 0 audio {words!r}
        response.output_item.done                   {reply} 0 {item} assistant {status} output_audio {held!r}
        conversation.item.done                      {item} assistant {status} output_audio {held!r} after {after}
        response.done                               {reply} {ended} {item}:{status}
    """


def spoken(reply: str, item: str, after: str, words: str, ended: str = "completed", metrics: str = "") -> str:
    """Return a whole spoken response."""
    return f"""
        {opening(reply, item, after)}
        webrtc output_audio_buffer.started          {reply}
        {metrics}
        response.output_audio_transcript.delta …    {reply} {item} 0 0 {words!r}
        websocket response.output_audio.delta …     {reply} {item} 0 0
        {closing(reply, item, after, words, ended)}
        webrtc output_audio_buffer.stopped          {reply}
    """


def written(reply: str, item: str, after: str, words: str, ended: str = "completed") -> str:
    """Return a whole response in text."""
    status = "completed" if ended == "completed" else "incomplete"
    return f"""
        {opening(reply, item, after, "text")}
        response.output_text.delta …                {reply} {item} 0 0 {words!r}
        response.output_text.done                   {reply} {item} 0 0 {words!r}
        response.content_part.done                  {reply} {item} 0 0 text {words!r}
        response.output_item.done                   {reply} 0 {item} assistant {status} output_text {words!r}
        conversation.item.done                      {item} assistant {status} output_text {words!r} after {after}
        response.done                               {reply} {ended} {item}:{status}
    """


def turn(item: str, after: str) -> str:
    """Return the user's turn, from the end of their speech to its words."""
    return f"""
        input_audio_buffer.speech_stopped           {item}
        input_audio_buffer.committed                {item} after {after}
        {user(item, after, "input_audio")}
        conversation.item.input_audio_transcription.delta …     {item} 0 'Hello there.'
        conversation.item.input_audio_transcription.completed   {item} 0 'Hello there.'
    """
