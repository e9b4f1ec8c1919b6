/* InterProcessMutex of Apache Curator, for lock_stores.py. Lines in and out are those of kazoo_locks.py. */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class CuratorLocks {
    static final long WARM_UP_NS = 500_000_000L;

    static void passOn(CuratorFramework client, String path, long begin, long end, AtomicLong count) {
        InterProcessMutex mutex = new InterProcessMutex(client, path);
        try {
            while (System.nanoTime() - end < 0) {
                mutex.acquire();
                mutex.release();
                long now = System.nanoTime();
                if (now - begin >= 0 && now - end < 0)
                    count.incrementAndGet();
            }
        } catch (Exception e) {
            e.printStackTrace();
            System.exit(1);
        }
    }

    public static void main(String[] words) throws Exception {
        CuratorFramework client =
            CuratorFrameworkFactory.newClient(words[0], 30000, 30000, new ExponentialBackoffRetry(100, 10));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        client.start();
        client.blockUntilConnected();
        System.out.println("ready");
        for (String line; (line = in.readLine()) != null;) {
            String[] what = line.split(" ");
            long begin = System.nanoTime() + WARM_UP_NS, end = begin + (long) (Double.parseDouble(what[2]) * 1e9);
            AtomicLong count = new AtomicLong();
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < Integer.parseInt(what[0]); i++) {
                String path = "/curator/" + (what[1].equals("one") ? "one-" + what[3] : "own-" + i);
                threads.add(new Thread(() -> passOn(client, path, begin, end, count)));
            }
            for (Thread thread : threads)
                thread.start();
            for (Thread thread : threads)
                thread.join();
            System.out.println(count);
        }
    }
}
