#pragma once
/// Puts the files that pendrop left in $queue_directory/maildrop into the queue.
///
/// Use:     auto collector = std::make_shared<Collector>(loop, pool, intake, options);
///          gate.spawn("collector", Collector::run(collector, &draining));
///          collector->wake();                  // there may be new files
/// Promise: a file is removed only after qmgr said that its message is on stable storage, under the queue id that
///          pendrop chose. So a crash loses nothing, and a file taken again gives one message (docs/submission.md
///          says how long qmgr remembers). A file of another version of the suite stays. A file that is no message
///          goes to the corrupt directory with a warning; so does one with an owner who may not submit it (pendrop
///          asked already, but under its caller's hands). So does a message that the queue will never take, once a
///          notice with its header is on its way to the sender: one notice, with a queue id derived from the
///          message's.
/// Bounds:  at_once messages in hand, each with at most Body::kDrainAt bytes; the names of one batch of the directory.
/// Thread:  the loop's; file calls run on the pool.
#include <expected>
#include <optional>
#include <set>
#include <string>

#include "lib/base/async/sync.h"
#include "lib/base/random.h"
#include "lib/mail/dsn.h"
#include "lib/receive/intake/derived.h"
#include "lib/receive/milter/other_filters.h"
#include "lib/receive/submission/drop_file.h"
#include "lib/receive/submission/rights.h"
#include "lib/receive/tenant/identity.h"
#include "lib/receive/tenant/priority.h"

namespace pen::pickup {

class Collector {
 public:
  struct Options {
    std::string drop_directory, corrupt_directory;
    std::size_t at_once = 20;  // these commits share one sync of the queue log
    seconds pause{10};         // after a temporary failure
    mail::DsnSettings notices = {};
    intake::OwnMail notice = {};
    bool detect_smtputf8_of_probes = false;
    std::uint64_t size_limit = 0;                               // message_size_limit, 0: none
    std::optional<submission::Rights> rights{};                 // none: every user may submit with every sender
    milter::OtherFilters* filters = nullptr;                    // non_smtpd_milters; nullptr: none
    std::shared_ptr<const tenant::Identity> tenants = {};       // nullptr: there are none
    std::shared_ptr<const tenant::Priorities> priorities = {};  // the same
  };
  Collector(async::Loop& loop, async::HandlerPool& pool, intake::Intake& intake, Options options)
      : loop_(loop),
        pool_(pool),
        intake_(intake),
        options_(std::move(options)),
        random_(secure_random_u64()),
        woken_(loop),
        tasks_(loop) {}

  /// Looks through the directory at once, and whenever it is woken, until cancelled. Finishes the messages in hand
  /// before it ends.
  static async::Task<void> run(std::shared_ptr<Collector> self, async::Cancel* cancel);
  void wake() { woken_.set(); }

  struct Counts {
    std::uint64_t taken = 0, set_aside = 0, put_off = 0, left = 0, returned = 0, probes = 0;
  };
  const Counts& counts() const { return counts_; }

  /// Why the user may not submit with this sender, "" when he may. Errors: a table cannot be asked now.
  async::Task<Result<std::string>> refusal(uid_t uid, std::string sender);

 private:
  using Reader = std::shared_ptr<submission::DropReader>;
  struct InHand;
  static async::Task<void> take(Collector* self, std::string name, async::Semaphore* room);
  async::Task<void> look_through(async::Cancel* cancel);
  async::Task<void> take_file(const std::string& name);
  async::Task<void> take_message(const std::string& name, Reader reader);
  /// All that is known of it before its content.
  void describe(intake::Message& message, const InHand& taken) const;
  /// False: it cannot be read, and the file is put off or set aside.
  async::Task<bool> read_content(intake::Message& message, InHand& taken, async::Until until);
  /// Judges it, and commits it if nothing is against it. Errors: why that cannot be done now.
  async::Task<std::expected<intake::Commit, std::string>> enqueue(intake::Message& message, const InHand& taken,
                                                                  async::Until until);
  /// What becomes of the file.
  async::Task<void> settle(InHand taken, intake::Commit commit, async::Until until);
  /// Queues a notice; returns its queue id. head: the beginning of the original.
  async::Task<Result<std::string>> notify(const mail::DsnRequest& request, std::string head, async::Until until);
  /// Returns a message to its sender that the queue will never take. For a probe that is the answer.
  async::Task<void> give_back(InHand taken, intake::Outcome outcome, std::string why, async::Until until);
  async::Task<void> set_aside(const std::string& name, std::string why);
  /// Leaves a file that this process must not take, and does not look at it again.
  void leave(const std::string& name, std::string_view why);
  void put_off(const std::string& name, std::string_view why);
  /// The tenant of a message: by the account that handed it in, and by its sender.
  async::Task<Result<std::string>> tenant_of(uid_t uid, std::string sender);
  async::Task<Result<std::int8_t>> priority_of(intake::Message& message);

  async::Loop& loop_;
  async::HandlerPool& pool_;
  intake::Intake& intake_;
  Options options_;
  Random random_;
  async::Event woken_;
  async::Gate tasks_;
  Counts counts_;
  bool waits_ = false;          // a message was put off in this pass
  bool stop_ = false;           // the queue takes no mail now
  std::set<std::string> told_;  // names of left files that were warned of
};

}  // namespace pen::pickup
