"""Which words say that a speaker is not done: lists of one language."""

from __future__ import annotations

from pydantic import Field

from duplex.config.section import Section


class UnfinishedSettings(Section):
    """Turns whose words are not done wait for the longest silence of their eagerness (semantic_vad). Words in lower case; an
    empty list is not looked at."""

    language: str = "en"
    """Language of the lists, which are used where the model pack transcribes in it; empty: nowhere."""
    marks: tuple[str, ...] = ("...", "…", ",", ";", ":", "-", "–", "—")
    """Ends of a transcript that is not done."""
    endings: tuple[str, ...] = (
        "a", "an", "the", "my", "your", "our", "their", "every", "and", "or", "but", "nor", "because", "although", "unless", "whether",
        "if", "than", "very", "i'm", "i've", "i'll", "you've", "you'll", "we've", "we'll", "we're", "they've", "they'll", "they're",
        "it's", "it'll", "that's", "there's", "he's", "she's", "what's", "who's", "where's", "how's", "um", "uhm", "uh", "er", "erm",
    )  # fmt: skip
    """Words, one or several together, that no sentence ends with."""
    open_endings: tuple[str, ...] = (
        "of", "to", "for", "from", "with", "at", "by", "about", "into", "onto", "between", "among", "during", "without", "towards",
        "i want", "i need", "i would like", "i'd like", "i was wondering", "i wanted to ask", "i mean", "could you tell me",
        "can you tell me", "let me think", "let me see",
    )  # fmt: skip
    """The same for sentences without a question word, which may end with them: "where is it from"."""
    auxiliaries: tuple[str, ...] = (
        "am", "are", "can", "could", "did", "do", "does", "had", "has", "have", "is", "may", "might", "must", "shall", "should", "was",
        "were", "will", "would",
    )  # fmt: skip
    """Verbs that no sentence ends with but a short answer ("yes, it is") and one with a question word."""
    subjects: tuple[str, ...] = (
        "everybody", "everyone", "he", "here", "i", "it", "please", "she", "so", "that", "there", "they", "this", "we", "will", "yes",
        "you",
    )  # fmt: skip
    """Words before the auxiliary of a short answer."""
    question_words: tuple[str, ...] = ("how", "what", "when", "where", "which", "who", "whom", "whose", "why")
    """Words after which a sentence may end with `open_endings` and `auxiliaries`."""
    openings: tuple[str, ...] = ("although", "if", "unless", "when", "whenever", "while")
    """Words that open a clause which cannot stand alone: no comma, and no auxiliary behind them ("when is it")."""
    opening_words_min: int = Field(3, ge=1, le=100)
    """Such a turn of fewer words is an answer ("if possible")."""
    opening_words_max: int = Field(8, ge=1, le=100)
    """One of more words has its main clause, and the comma is missing."""
