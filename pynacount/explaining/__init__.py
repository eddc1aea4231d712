"""The exact requests of counted writes, ready to paste. Nothing is sent."""

from pynacount.explaining.pasting import as_boto3, as_cli, as_json
from pynacount.explaining.requests import Explained, Unexplained, explain

__all__ = ["Explained", "Unexplained", "as_boto3", "as_cli", "as_json", "explain"]
