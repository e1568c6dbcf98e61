"""
Write an order and set its job in one SQLAlchemy transaction: a rollback undoes both.

    python examples/sqlalchemy_app.py [STORE]

The default of STORE is sqlite:///shop.db. If STORE is PostgreSQL, such as postgresql:///shop, the example runs first
with a Session, and then with an AsyncSession. SQLite works only with a Session, because the connection of an
AsyncSession belongs to another thread.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable

from sqlalchemy import create_engine, update
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from tickwheel.scheduler import AsyncScheduler, Scheduler, TaskCall

PATIENCE_S = 0.1
Cancel = Callable[[int], TaskCall]
"""Takes the number of an order, and returns a call of the task that cancels the order."""


class Base(DeclarativeBase):
    """
    The base class of the shop's tables.
    """


class Order(Base):
    """
    An order, which is open until it is cancelled.
    """

    __tablename__ = "orders"

    number: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str] = mapped_column(default="open")


class CardRefusedError(Exception):
    """
    An order is rolled back because its card is refused.
    """


def take(session: Session, scheduler: Scheduler, cancel: Cancel, *, is_card_good: bool = True) -> int:
    """
    Write an order, and set the job that cancels it, in the caller's transaction. Return the order's number.
    """
    order = Order()
    session.add(order)
    session.flush()
    key = f"order/{order.number}"
    scheduler.set(key, cancel(order.number), delay=PATIENCE_S, conn=session)
    if not is_card_good:
        raise CardRefusedError(key)
    return order.number


async def take_async(
    session: AsyncSession, scheduler: AsyncScheduler, cancel: Cancel, *, is_card_good: bool = True
) -> int:
    """
    Do the same as `take`, with an AsyncSession and an AsyncScheduler.
    """
    order = Order()
    session.add(order)
    await session.flush()
    key = f"order/{order.number}"
    await scheduler.set(key, cancel(order.number), delay=PATIENCE_S, conn=session)
    if not is_card_good:
        raise CardRefusedError(key)
    return order.number


def sell(store: str, url: str) -> None:
    """
    Place two orders: the first one is cancelled when its job fires, and the second one is rolled back.
    """
    engine = create_engine(url)
    Base.metadata.create_all(engine)
    cancelled = threading.Event()
    with Scheduler(store) as scheduler:

        @scheduler.task(name="cancel-order")
        def cancel_order(number: int) -> None:
            with Session(engine) as session, session.begin():
                session.execute(update(Order).where(Order.number == number).values(state="cancelled"))
            cancelled.set()

        with Session(engine) as session, session.begin():
            number = take(session, scheduler, cancel_order.of)
        try:
            with Session(engine) as session, session.begin():
                take(session, scheduler, cancel_order.of, is_card_good=False)
        except CardRefusedError as error:
            print(f"{error} is rolled back, and its job is {scheduler.get(str(error))}")
        cancelled.wait()
    with Session(engine) as session:
        print(f"order/{number} is {session.get_one(Order, number).state}, of {session.query(Order).count()}")
    engine.dispose()


async def sell_async(store: str, url: str) -> None:
    """
    Do the same as `sell`, with an AsyncSession and an AsyncScheduler.
    """
    engine = create_async_engine(url)
    cancelled = asyncio.Event()
    async with AsyncScheduler(store) as scheduler:

        @scheduler.task(name="cancel-order")
        async def cancel_order(number: int) -> None:
            async with AsyncSession(engine) as session, session.begin():
                await session.execute(update(Order).where(Order.number == number).values(state="cancelled"))
            cancelled.set()

        async with AsyncSession(engine) as session, session.begin():
            number = await take_async(session, scheduler, cancel_order.of)
        try:
            async with AsyncSession(engine) as session, session.begin():
                await take_async(session, scheduler, cancel_order.of, is_card_good=False)
        except CardRefusedError as error:
            print(f"{error} is rolled back, and its job is {await scheduler.get(str(error))}")
        await cancelled.wait()
    async with AsyncSession(engine) as session:
        print(f"order/{number} is {(await session.get_one(Order, number)).state}")
    await engine.dispose()


def main(store: str = "sqlite:///shop.db") -> None:
    """
    Sell with a Session and, if *store* is PostgreSQL, also with an AsyncSession.
    """
    url = store.replace("postgresql://", "postgresql+psycopg://")
    sell(store, url)
    if url != store:
        asyncio.run(sell_async(store, url))


if __name__ == "__main__":
    main(*sys.argv[1:])
