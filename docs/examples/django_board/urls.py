"""The paths."""

from __future__ import annotations

from django.urls import include, path
from django.views.static import serve

from django_board import views
from django_board.settings import HERE

urlpatterns = [
    path("", views.feed, name="feed"),
    path("posts", views.write),
    path("posts/<str:post_id>", views.post, name="post"),
    path("posts/<str:post_id>/like", views.like),
    path("posts/<str:post_id>/comments", views.comment),
    path("group", views.group, name="group"),
    path("tallies/<str:post_id>", views.tallies),
    path("counters/", include("pynacount.contrib.django.urls")),
    path("static/<path:path>", serve, {"document_root": HERE.parent / "board" / "static"}),
]
handler400 = "django_board.views.unclear"
handler404 = "django_board.views.missing"
