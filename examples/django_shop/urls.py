"""
The addresses of the project.
"""

from __future__ import annotations

from django.contrib import admin
from django.urls import path
from shop import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("orders/<int:number>", views.order),
    path("orders/<int:number>/payment", views.pay),
]
