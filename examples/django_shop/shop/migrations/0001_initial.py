"""
The table of orders.
"""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """
    Create the table.
    """

    operations = (
        migrations.CreateModel(
            "Order",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("state", models.CharField(max_length=9, default="open")),
            ],
        ),
    )
