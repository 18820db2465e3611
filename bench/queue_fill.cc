// queue_fill: fills the queue log of a stopped instance quickly, in the same way as qmgr, for tests of depth.
//
// Every message is accepted, begun and deferred through the real log; its payload is what qmgr stores.
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "bench/queue_bench.h"
#include "lib/mail/queue_id.h"
#include "qmgr/message.h"

namespace {

using namespace pen;
using bench::need;

struct Fill {
  std::string directory, domain = "far.example", sender = "sender@load.example";
  long messages = 10'000, first = 0;
  std::size_t bytes = 600;
  std::uint32_t segment_size = 4U << 20;
  long due_in = 3600, interval = 4000, domains = 1000;
  std::string logs = "many";
};

/// The clock of the deferral, set so that the messages are due at the right time.
class FillClock final : public Clock {
 public:
  explicit FillClock(seconds shift) : shift_(shift) {}
  SteadyTime now() const override { return system_clock().now(); }
  WallTime wall_now() const override { return system_clock().wall_now() + shift_; }

 private:
  seconds shift_;
};

void fill(const Fill& work) {
  const FillClock clock(seconds(work.due_in - work.interval));
  queue_log::Options options;
  options.segment_size = work.segment_size;
  options.intervals = queue_log::retry_ladder(seconds(300), seconds(4000));
  options.retry_logs = work.logs == "many" ? queue_log::RetryLogs::many : queue_log::RetryLogs::single;
  bench::BenchQueue queue(work.directory, options, clock);
  queue.commit();
  queue.recover();
  queue_log::QueueLog& log = *queue.log;
  mail::QueueIdGenerator ids(clock, Random(secure_random_u64()));
  const queue_log::LogId retry = log.runners().retry_log_for(seconds(work.interval));
  constexpr std::size_t kEnvelope = 400;  // about the size of everything but the body
  std::string body = "Subject: waits\r\n\r\n";
  while (body.size() + kEnvelope + 80 < work.bytes) body += std::string(70, 'x') + "\r\n";
  for (long done = 0; done < work.messages;) {
    std::vector<std::pair<queue_log::Envelope, queue_log::QueueLog::Appended>> group;
    for (; done < work.messages && group.size() < 1000; ++done) {
      mail::Envelope m;
      m.queue_id = ids.next();
      m.arrival = clock.wall_now();
      m.sender = work.sender;
      const long number = work.first + done;
      m.recipients.push_back(
          {"user" + std::to_string(number) + "@d" + std::to_string(number % work.domains) + "." + work.domain,
           {},
           {},
           0});
      m.client = {"load.example", "127.0.0.1", 1025, "load.example", "ESMTP", {}, {}, {}, {}};
      m.body.size = body.size();
      m.body.header_size = 18;
      m.body.longest_line = 70;
      m.message_id = "<" + m.queue_id + "@load.example>";
      queue_log::Envelope e;
      qmgr::to_log(m, qmgr::beginning_of(m, m.arrival), body, 0, 0, e);
      const auto appended = need(log.append(e));
      group.emplace_back(std::move(e), appended);
    }
    queue.commit();
    for (const auto& [e, a] : group) {
      need(log.work().start(e.queue_id, a.place, a.bytes));
      need(log.work().defer(e.queue_id, retry, e));
    }
  }
  for (int i = 0; i < 3; ++i) {
    log.commits().flush();
    log.commits().save_positions();
    queue.commit();
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"queue_fill: fills the queue log of an instance that is not running with deferred messages"};
  Fill work;
  app.add_option("directory", work.directory, "queue_log_directory; made if it is not there")->required();
  app.add_option("-n,--messages", work.messages);
  app.add_option("-s,--size", work.bytes, "bytes of a stored message, envelope included");
  app.add_option("--due-in", work.due_in, "seconds until all of them are due");
  app.add_option("--interval", work.interval, "of the retry log they wait in");
  app.add_option("--sender", work.sender, "empty: the null sender, to whom nothing is returned");
  app.add_option("--domain", work.domain, "recipients are userN@dM.DOMAIN");
  app.add_option("--domains", work.domains, "how many M there are");
  app.add_option("--first", work.first, "the first N");
  app.add_option("--segment-size", work.segment_size, "of a new queue");
  app.add_option("--logs", work.logs)->check(CLI::IsMember({"many", "single"}));
  CLI11_PARSE(app, argc, argv)
  struct stat before{};
  const bool there = ::stat(work.directory.c_str(), &before) == 0;
  fill(work);
  // The files get the owner of the directory.
  if (there && ::geteuid() == 0)
    for (const auto& file : std::filesystem::directory_iterator(work.directory))
      if (::chown(file.path().c_str(), before.st_uid, before.st_gid) != 0)
        bench::give_up(Error::from_errno(errno, file.path().string()));
  return 0;
}
