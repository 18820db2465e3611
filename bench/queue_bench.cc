// queue_bench: measures the queue log alone, beside the disk's limit. bench/queue runs it and explains the figures.
#include "bench/queue_bench.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "lib/testing/manual_clock.h"

namespace {

using namespace pen;
using namespace pen::queue_log;
using pen::bench::BenchQueue;
using pen::bench::give_up;
using pen::bench::need;
using pen::bench::seconds_since;

Options plain_options() {
  Options options;
  options.intervals = retry_ladder(seconds(300), seconds(4000));
  return options;
}

Envelope envelope(long number, std::size_t bytes) {
  Envelope e;
  e.queue_id = "bench" + std::to_string(number);
  e.recipients = 1;
  e.remaining = OrdinalSet::one(0);
  e.sender = "sender@example.org";
  e.domains = {"example.com"};
  e.payload.assign(bytes, 'x');
  return e;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Appends and commits messages in groups; returns messages per second, and the bytes of one group.
double append_groups(BenchQueue& queue, long messages, std::size_t bytes, long group, std::size_t& group_bytes) {
  static long serial = 0;
  Envelope message = envelope(0, bytes);  // built before the clock starts, as are the bare loop's bytes
  const auto written = queue.storage.counts.written;
  const auto start = std::chrono::steady_clock::now();
  for (long i = 0; i < messages; i += group) {
    for (long n = 0; n < group; ++n) {
      message.queue_id = "bench" + std::to_string(++serial);
      need(queue.log->append(message));
    }
    queue.commit();
  }
  const double rate = static_cast<double>(messages) / seconds_since(start);
  group_bytes = (queue.storage.counts.written - written) / static_cast<std::size_t>(messages / group);
  return rate;
}

/// Writes the same bytes in the same groups to a file with reserved blocks.
double bare_groups(const std::string& path, long messages, long group, std::size_t group_bytes) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const auto total = static_cast<off_t>(static_cast<std::size_t>(messages / group) * group_bytes);
  if (fd < 0 || ::posix_fallocate(fd, 0, total) != 0 || ::fsync(fd) != 0) give_up(Error::from_errno(errno, path));
  const std::string block(group_bytes, 'x');
  off_t at = 0;
  const auto start = std::chrono::steady_clock::now();
  for (long i = 0; i < messages; i += group) {
    if (::pwrite(fd, block.data(), block.size(), at) < 0 || ::fdatasync(fd) != 0)
      give_up(Error::from_errno(errno, path));
    at += static_cast<off_t>(block.size());
  }
  const double rate = static_cast<double>(messages) / seconds_since(start);
  ::close(fd);
  ::unlink(path.c_str());
  return rate;
}

/// The writer and the bare loop take turns, so that a disk that slows down slows both.
void measure_writer(const std::string& directory, long messages, std::size_t bytes, const std::vector<long>& groups) {
  BenchQueue queue(directory + "/log", plain_options(), system_clock());
  queue.commit();
  queue.recover();
  std::printf("%8s %12s %16s %16s %8s   (median of 5 turns, messages of %zu bytes)\n", "group", "bytes",
              "queue log msg/s", "bare loop msg/s", "share", bytes);
  for (const long group : groups) {
    const long count = std::max(group == 1 ? messages / 8 : messages, group) / group * group;
    std::vector<double> ours, bare;
    std::size_t size = 0;
    for (int turn = 0; turn < 5; ++turn) {
      ours.push_back(append_groups(queue, count, bytes, group, size));
      bare.push_back(bare_groups(directory + "/bare", count, group, size));
    }
    std::printf("%8ld %12zu %16.0f %16.0f %7.0f%%\n", group, size, median(ours), median(bare),
                100 * median(ours) / median(bare));
  }
}

/// Reads a journal of messages that a start must read; measures the rate beside that of reading the same bytes.
void measure_recovery(const std::string& directory, long megabytes) {
  testing::ManualClock clock;
  Options options = plain_options();
  options.suffix_limit = options.save_every = UINT64_MAX / 2;
  std::printf("%8s %10s %10s %14s %14s %14s\n", "bytes", "messages", "MiB read", "reading MB/s", "to the end MB/s",
              "bare read MB/s");
  // The most that a restart reads anyway (the suffix, and what a save lags behind), then the amount asked for.
  const long usual = static_cast<long>((Options().suffix_limit + Options().save_every) / 1'000'000);
  std::vector<std::pair<std::size_t, long>> rounds;
  for (const std::size_t bytes : {600U, 4096U, 16384U}) {
    rounds.emplace_back(bytes, usual);
    if (megabytes != usual) rounds.emplace_back(bytes, megabytes);
  }
  for (const auto& [bytes, amount] : rounds) {
    const std::string home = directory + "/recovery";
    {
      BenchQueue queue(home, options, clock);
      queue.commit();
      queue.recover();
      queue.log->commits().save_positions();
      queue.commit();
      const long messages = amount * 1'000'000 / static_cast<long>(bytes + 150);
      for (long i = 0; i < messages; ++i) {
        need(queue.log->append(envelope(i, bytes)));
        if (i % 100 == 99) queue.commit();
      }
      queue.commit();
    }
    BenchQueue queue(home, options, clock);
    auto start = std::chrono::steady_clock::now();
    double reading = 0;
    std::uint64_t read = 0;
    while (queue.log->restart().stage() != Recovery::done) {
      need(queue.log->restart().step(1U << 20));
      if (queue.log->restart().report().bytes_read != read) {
        read = queue.log->restart().report().bytes_read;
        reading = seconds_since(start);
      }
      queue.commit();
    }
    const double all = seconds_since(start);
    // The bare loop reads the same files, as cold as they were for recovery.
    std::vector<Storage::SlotInfo> slots = need(queue.files->list());
    std::string buffer(256 * 1024, '\0');
    std::uint64_t bare_bytes = 0;
    for (const auto& slot : slots)
      if (slot.slot != kPositionsSlot) need(queue.files->drop_cache(slot.slot));
    start = std::chrono::steady_clock::now();
    for (const auto& slot : slots) {
      if (slot.slot == kPositionsSlot) continue;
      for (std::uint64_t at = 0; at + buffer.size() <= slot.size && bare_bytes < read; at += buffer.size()) {
        need(queue.files->read(slot.slot, at, {reinterpret_cast<std::byte*>(buffer.data()), buffer.size()}));
        bare_bytes += buffer.size();
      }
    }
    const double bare = seconds_since(start);
    const auto& report = queue.log->restart().report();
    std::printf("%8zu %10llu %10.0f %14.0f %14.0f %14.0f\n", bytes, static_cast<unsigned long long>(report.records),
                static_cast<double>(read) / (1 << 20), static_cast<double>(read) / reading / 1e6,
                static_cast<double>(read) / all / 1e6, static_cast<double>(bare_bytes) / bare / 1e6);
    std::filesystem::remove_all(home);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"queue_bench: the queue log alone, beside what the disk can do"};
  app.require_subcommand(1);
  std::string directory;
  long messages = 4000, megabytes = 500;
  std::size_t bytes = 4096;
  std::vector<long> groups = {1, 20, 100};
  bench::RetryWork work;
  std::string form = "many";
  auto* writer = app.add_subcommand("writer", "append and commit, beside a bare loop of the same groups");
  writer->add_option("directory", directory, "an empty directory on the disk in question")->required();
  writer->add_option("-n,--messages", messages, "per turn");
  writer->add_option("-s,--size", bytes, "of a message");
  writer->add_option("--groups", groups, "messages of one commit")->delimiter(',')->check(CLI::PositiveNumber);
  auto* recovery = app.add_subcommand("recovery", "reading after a crash, beside a bare loop");
  recovery->add_option("directory", directory)->required();
  recovery->add_option("--megabytes", megabytes, "to be read, besides what a restart usually reads");
  auto* retry = app.add_subcommand("retry", "a round of retries over a backlog, in virtual time");
  retry->add_option("directory", work.directory)->required();
  retry->add_option("-n,--messages", work.messages);
  retry->add_option("-s,--size", work.bytes, "of a message with its envelope");
  retry->add_option("--logs", form)->check(CLI::IsMember({"many", "single"}));
  retry->add_option("--segment-size", work.segment_size);
  retry->add_option("--delays", work.delays, "milliseconds added to each sync, a round for each")->delimiter(',');
  CLI11_PARSE(app, argc, argv)
  if (writer->parsed()) measure_writer(directory, messages, bytes, groups);
  if (recovery->parsed()) measure_recovery(directory, megabytes);
  if (retry->parsed()) {
    work.form = form == "many" ? RetryLogs::many : RetryLogs::single;
    bench::measure_retries(work);
  }
  return 0;
}
