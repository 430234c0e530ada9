# Threads, processes or tasks that take work from each other.
import asyncio, multiprocessing, queue, sys, threading


def work(n):
    return sum(i * i % 7 for i in range(n))


def threads():
    todo, done = queue.Queue(), queue.Queue()

    def worker():
        while (n := todo.get()) is not None:
            done.put(work(n))

    all_of_them = [threading.Thread(target=worker) for _ in range(4)]
    for each in all_of_them:
        each.start()
    for n in range(200):
        todo.put(n)
    for _ in all_of_them:
        todo.put(None)
    for each in all_of_them:
        each.join()
    print(sum(done.get() for _ in range(200)))


def processes():
    with multiprocessing.Pool(3) as pool:
        print(sum(pool.map(work, range(50))))


async def tasks():
    async def server(reader, writer):
        while line := await reader.readline():
            writer.write(line.upper())
            await writer.drain()
        writer.close()

    listener = await asyncio.start_server(server, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]

    async def client(n):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"line %d\n" % n)
        line = await reader.readline()
        writer.close()
        await asyncio.sleep(0.001 * n)
        return len(line)

    print(sum(await asyncio.gather(*(client(n) for n in range(5)))))
    listener.close()


{"threads": threads, "processes": processes, "asyncio": lambda: asyncio.run(tasks())}[sys.argv[1]]()
