"""
asyncio on the wheel.
"""
