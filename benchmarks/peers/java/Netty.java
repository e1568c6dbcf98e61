import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import io.netty.util.concurrent.DefaultThreadFactory;
import java.util.concurrent.TimeUnit;

/** One ring of 512 slots, its default; a thread wakes at every tick, and calls reach it over a queue; no move. */
final class Netty implements Timers {
    private static final TimerTask NOTHING = timeout -> {};

    private final HashedWheelTimer wheel;
    private final Timeout[] handles;

    Netty(int n, long tickMs) {
        wheel = new HashedWheelTimer(new DefaultThreadFactory("timer", true), tickMs, TimeUnit.MILLISECONDS);
        handles = new Timeout[n];
    }

    @Override
    public void set(int place, long delayNs, Runnable call) {
        TimerTask task = call == Bench.NOTHING ? NOTHING : timeout -> call.run();
        handles[place] = wheel.newTimeout(task, delayNs, TimeUnit.NANOSECONDS);
    }

    @Override
    public void cancel(int place) {
        handles[place].cancel();
    }

    @Override
    public void move(int place, long delayNs) {
        handles[place].cancel();
        set(place, delayNs, Bench.NOTHING);
    }
}
