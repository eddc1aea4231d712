"""What the demonstration counts: likes of posts, and women at events."""

from __future__ import annotations

from pynamodb.attributes import UnicodeAttribute
from pynamodb.models import Model

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, models


class InMemory:
    """Settings that no configuration of PynamoDB's own can lead out of the engine."""

    region = "us-east-1"
    host = "https://dynamodb.us-east-1.amazonaws.com"


class Post(models.PostMeta):
    """The library's own post, in a table of ours."""

    class Meta(InMemory):
        """Its table."""

        table_name = "Social"


class Like(models.Like):
    """The library's own like, in the same table."""

    class Meta(InMemory):
        """Its table."""

        table_name = "Social"

    post = CountedIn(Post.like_tally)


class Event(CountedModel):
    """A social event, and how many women were there."""

    class Meta(InMemory):
        """Its table."""

        table_name = "DeepSouth"

    event: str

    pk = KeyAttribute("EVENT#{event}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    attendance_tally = CounterField(attr_name="attendanceTally", settle=0.1)
    women: CountedSet[Attendance] = CountedSet("Attendance", tally="attendance_tally")


class Attendance(CountedModel):
    """One woman at one event."""

    class Meta(InMemory):
        """Its table."""

        table_name = "DeepSouth"

    event: str
    woman: str

    pk = KeyAttribute("EVENT#{event}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("WOMAN#{woman}", range_key=True, attr_name="SK")
    at = CountedIn(Event.attendance_tally)


class PlainEventItem(Model):
    """An item of the events' table as an application without the library has it."""

    class Meta(InMemory):
        """Its table."""

        table_name = "DeepSouth"

    pk = UnicodeAttribute(hash_key=True, attr_name="PK")
    sk = UnicodeAttribute(range_key=True, attr_name="SK")


class PlainPostItem(Model):
    """An item of the posts' table as an application without the library has it."""

    class Meta(InMemory):
        """Its table."""

        table_name = "Social"

    pk = UnicodeAttribute(hash_key=True, attr_name="PK")
    sk = UnicodeAttribute(range_key=True, attr_name="SK")
