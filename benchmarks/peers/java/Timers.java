/** Timers known by their places, 0 to n-1. */
interface Timers {
    void set(int place, long delayNs, Runnable call);

    void cancel(int place);

    void move(int place, long delayNs);
}
