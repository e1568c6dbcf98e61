import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** What the threads of the process have used, those that there are when this is made. */
final class Process {
    private static final long PAGE = 4096;

    private final List<FileChannel> stats = new ArrayList<>();
    private final ByteBuffer buffer = ByteBuffer.allocateDirect(200);
    private final long costNs;

    Process() {
        try (DirectoryStream<Path> tasks = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
            for (Path task : tasks) {
                stats.add(FileChannel.open(task.resolve("schedstat")));
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        int times = 5_000;
        for (int i = 0; i < times; i++) { // until it is compiled
            cpuNs();
        }
        long begin = cpuNs();
        for (int i = 0; i < times; i++) {
            cpuNs();
        }
        costNs = (cpuNs() - begin) / times;
    }

    /** Returns how many CPU nanoseconds it costs to read the clock. */
    long costNs() {
        return costNs;
    }

    /** Returns the CPU nanoseconds of all threads; the virtual machine's own figure has steps of 10 ms. */
    long cpuNs() {
        long total = 0;
        try {
            for (FileChannel stat : stats) {
                buffer.clear();
                stat.read(buffer, 0);
                long value = 0;
                for (int place = 0; buffer.get(place) != ' '; place++) {
                    value = value * 10 + buffer.get(place) - '0';
                }
                total += value;
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return total;
    }

    /** Returns how often all threads have gone to sleep. */
    static long switched() {
        long total = 0;
        try (DirectoryStream<Path> tasks = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
            for (Path task : tasks) {
                String text = Files.readString(task.resolve("status"));
                String after = text.substring(text.indexOf("\nvoluntary_ctxt_switches:") + 25);
                total += Long.parseLong(after.substring(0, after.indexOf('\n')).strip());
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return total;
    }

    /** Returns the bytes of the resident set and of the live heap, after a collection. */
    static long[] weigh() {
        System.gc();
        Runtime runtime = Runtime.getRuntime();
        try {
            String text = Files.readString(Path.of("/proc/self/statm"), StandardCharsets.US_ASCII);
            return new long[] {Long.parseLong(text.split(" ")[1]) * PAGE, runtime.totalMemory() - runtime.freeMemory()};
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
