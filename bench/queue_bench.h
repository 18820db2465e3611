#pragma once
/// Shared by the parts of queue_bench: a log on real files, errors that end the program, memory in use.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "bench/measured_storage.h"
#include "lib/queue/queue_log/posix_storage.h"
#include "lib/queue/queue_log/queue_log.h"

namespace pen::bench {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
[[noreturn]] inline void give_up(const Error& error) {
  std::fprintf(stderr, "queue_bench: %s\n", error.message().c_str());
  std::exit(1);
}
template <class T>
T need(Result<T> result) {
  if (!result) give_up(result.error());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

/// A queue log on files, committed in the caller's thread.
struct BenchQueue {
  BenchQueue(const std::string& directory, const queue_log::Options& options, const Clock& clock)
      : files(need(queue_log::PosixStorage::open(directory))),
        storage(*files),
        random(secure_random_u64()),
        log(need(queue_log::QueueLog::open(storage, options, clock, random))) {}

  void commit() {
    while (auto batch = log->commits().next_batch()) {
      auto executed = batch->execute(storage);
      need(log->commits().complete(*std::move(batch), std::move(executed)));
    }
  }
  void recover() {
    while (log->restart().stage() != queue_log::Recovery::done) {
      need(log->restart().step(1U << 20));
      commit();
    }
  }

  std::unique_ptr<queue_log::PosixStorage> files;
  MeasuredStorage storage;
  Random random;
  std::unique_ptr<queue_log::QueueLog> log;
};

/// Anonymous memory of this process now, MiB.
inline double anonymous_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::strtod(line.c_str() + 8, nullptr) / 1024;
  return 0;
}

struct RetryWork {
  std::string directory;
  long messages = 10'000;
  std::size_t bytes = 600;  // of a message's payload
  queue_log::RetryLogs form = queue_log::RetryLogs::many;
  std::uint32_t segment_size = 4U << 20;
  std::vector<int> delays{0, 2};  // milliseconds added to each sync, a round for each
};
/// Measures rounds of retries over one backlog, and prints a line for each.
void measure_retries(const RetryWork& work);

}  // namespace pen::bench
