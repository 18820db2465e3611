// Appends and commits of the queue log against a bare loop that writes and syncs the same groups of bytes.
//
//   queue_log_bench DIRECTORY [messages] [bytes]      default 2000 messages of 4096 bytes
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "lib/queue_log/posix_storage.h"
#include "lib/queue_log/queue_log.h"

using namespace pen;
using namespace pen::queue_log;

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

[[noreturn]] void give_up(const Error& error) {
  std::fprintf(stderr, "queue_log_bench: %s\n", error.message().c_str());
  std::exit(1);
}

void commit(QueueLog& log, Storage& storage) {
  while (auto batch = log.next_batch()) {
    auto executed = batch->execute(storage);
    if (auto done = log.complete(*std::move(batch), std::move(executed)); !done)
      give_up(done.error());
  }
}

double run_log(QueueLog& log, Storage& storage, int messages, std::size_t bytes, int group) {
  static int serial = 0;
  Envelope e;
  e.recipients = 1;
  e.remaining = OrdinalSet::one(0);
  e.sender = "sender@example.org";
  e.domains = {"example.com"};
  e.payload.assign(bytes, 'x');
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < messages; i += group) {
    for (int n = 0; n < group; ++n) {
      e.queue_id = "bench" + std::to_string(++serial);
      if (auto a = log.append(e); !a) give_up(a.error());
    }
    commit(log, storage);
  }
  return messages / seconds_since(start);
}

double run_bare(const std::string& path, int messages, std::size_t bytes, int group) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const auto total = static_cast<off_t>(static_cast<std::size_t>(messages) * (bytes + 256));
  if (fd < 0 || ::posix_fallocate(fd, 0, total) != 0 || ::fsync(fd) != 0)
    give_up(Error::from_errno(errno, path));
  const std::string block(static_cast<std::size_t>(group) * (bytes + 128), 'x');
  off_t at = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < messages; i += group) {
    if (::pwrite(fd, block.data(), block.size(), at) < 0 || ::fdatasync(fd) != 0)
      give_up(Error::from_errno(errno, path));
    at += static_cast<off_t>(block.size());
  }
  const double rate = messages / seconds_since(start);
  ::close(fd);
  ::unlink(path.c_str());
  return rate;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: queue_log_bench DIRECTORY [messages] [bytes]\n");
    return 64;
  }
  const std::string directory = argv[1];
  const int messages = argc > 2 ? std::atoi(argv[2]) : 2000;
  const std::size_t bytes = argc > 3 ? static_cast<std::size_t>(std::atoi(argv[3])) : 4096;
  auto storage = PosixStorage::open(directory);
  if (!storage) give_up(storage.error());
  Options options;
  options.intervals = retry_ladder(seconds(300), seconds(4000));
  Random random(secure_random_u64());
  auto log = QueueLog::open(**storage, options, system_clock(), random);
  if (!log) give_up(log.error());
  commit(**log, **storage);
  while ((*log)->recovery() != Recovery::done) {
    if (auto r = (*log)->recover_step(1 << 20); !r) give_up(r.error());
    commit(**log, **storage);
  }
  std::printf("%8s %16s %16s %8s\n", "group", "queue log msg/s", "bare loop msg/s", "share");
  for (const int group : {1, 20, 100}) {
    const int count = group == 1 ? messages / 4 : messages;
    const double ours = run_log(**log, **storage, count, bytes, group);
    const double bare = run_bare(directory + "/bare", count, bytes, group);
    std::printf("%8d %16.0f %16.0f %7.0f%%\n", group, ours, bare, 100 * ours / bare);
  }
  return 0;
}
