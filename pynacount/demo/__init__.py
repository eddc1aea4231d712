"""The demonstration that ``pynacount demo`` gives.

:mod:`~pynacount.demo.script` runs it and yields what happened as data (:mod:`~pynacount.demo.parts`);
:mod:`~pynacount.demo.printing` shows that. It needs moto; showing it needs rich.
"""
