#pragma once
/// The conversation "queue": tools list the queue and act on messages.
///
/// Rights:  rights.h says which users may list and flush; other orders are for root, ourselves and mail_owner
///          (Right::all).
/// Listings stream in slices between other work, and have a share of the time while mail flows (walks.h); a listing
/// that nobody reads waits, holding one slice.
/// Orders for many messages (queue_orders.cc) go through the queue once, in slices, and are given as the scan meets the
/// messages, with a bounded number and a bounded number of bytes not yet durable: they share commits, memory stays flat
/// however many there are, and other mail flows between the slices. A message that arrives after the order is not
/// meant. An order ends early when its tool goes away. Maildrop is listed before the queue, so that what pickup takes
/// meanwhile is not missed; ids shown there are passed over in the queue. Orders there: queue_orders.cc. Spool files
/// are listed (queue_spool.cc) after one pass through the queue, which finds their messages. A tool that copies the
/// queue has what is on the disk kept as it is, until it goes (queue_freeze.cc). Orders only: the program
/// runs for one tool while the mail system is down (Program), nothing is delivered; so orders that need deliveries
/// are refused.
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "lib/queue/spool/spool.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/ipc/queue.h"
#include "qmgr/guests.h"
#include "qmgr/maildrop.h"
#include "qmgr/manager.h"
#include "qmgr/queue_filter.h"
#include "qmgr/rights.h"
#include "qmgr/walks.h"
#include "qmgr/watches.h"

namespace pen::qmgr {

class QueueServer {
 public:
  using OpenBody = std::function<Result<Fd>(std::uint64_t spool_file, const std::string& queue_id)>;
  QueueServer(async::Loop& loop, Manager& manager, Maildrop maildrop, bool orders_only,
              std::function<std::vector<ipc::queue::StatusLine>()> status, OpenBody open_body, spool::Spool* spool);
  /// Serves one tool until it goes, or asks nothing for kToolIdle; the server must outlive it. guest: nullptr for
  /// root and the mail system.
  async::Task<void> serve(ipc::Opening opening, Right right, Guests::Guest* guest);
  /// Waits until everything that is in the queue is known.
  async::Task<void> recovered();
  Watches& watches() { return watches_; }

 private:
  using Channel = ipc::Channel<ipc::queue::ToQmgr, ipc::queue::FromQmgr>;
  /// Keeps what is on the disk from being used again, as long as it lives.
  struct Frozen {
    explicit Frozen(queue_log::QueueLog::Commits& c) : commits(c) { commits.hold_positions(); }
    ~Frozen() { commits.release_positions(); }
    Frozen(const Frozen&) = delete;
    Frozen& operator=(const Frozen&) = delete;
    queue_log::QueueLog::Commits& commits;
    std::optional<std::uint64_t> save;  // the one that is held; nullopt: an earlier one has not ended
    bool kept() const { return save && !commits.saving() && commits.last_save() == *save; }
  };
  struct Session {
    Session(ipc::Opening opening, Right r) : uid(opening.peer.uid), channel(std::move(opening)), right(r) {}
    unsigned uid;
    Channel channel;
    Right right;
    /// The user who gave the order, for events.
    std::string by(const ipc::queue::Act& m) const;
    std::unique_ptr<Frozen> frozen;
  };
  /// What a listing has shown so far: hashes of the ids, while there is room for them, and the number.
  struct Shown {
    std::unordered_set<std::uint64_t> ids;
    std::uint64_t count = 0;
  };
  /// What came of a message that was to be shown. moved: it was not there any more; gone: the tool.
  enum class Seen : std::uint8_t { yes, moved, gone };
  /// Called for each message that lives and may be meant.
  using See = std::function<async::Task<Seen>(const queue_log::Listed&)>;
  static constexpr milliseconds kProgressEvery{250};
  /// How far a request is, and when its tool was last told.
  struct Course {
    Course(std::uint64_t request, SteadyTime now) : told(now) { is.request = request; }
    ipc::queue::Progress is;
    SteadyTime told;
  };
  /// Tells the tool, unless that was just done. false: the tool is gone.
  bool tell(Session& s, Course& course);
  /// And waits while the tool does not read.
  async::Task<bool> report(Session& s, Course& course);
  /// Waits until what had come to this process when the scan began is on the disk: then the scan misses no message that
  /// is on its way from one log to another. false: the tool is gone.
  async::Task<bool> settle(Session& s, Course& course, const queue_log::Scan& scan);
  /// Until a walk through the queue may begin a turn.
  async::Task<Walks::Turn> walk_turn();
  void end_turn(const Walks::Turn& turn) { walks_.end(turn, loop_.clock().now(), manager_.commits()); }
  /// For a listing, which learns how far it is. shown.ids: passed over. One that moves just when it is to be shown is
  /// looked for again.
  async::Task<Result<void>> each(Session& s, const ipc::queue::List& m, std::vector<std::string> ids, Shown& shown,
                                 See see);
  /// One look through the queue. Returns the ids of those that it missed, because they moved.
  async::Task<Result<std::vector<std::string>>> look(Session& s, const ipc::queue::List& m,
                                                     std::vector<std::string> ids, Shown& shown, const See& see);
  async::Task<void> handle(std::shared_ptr<Session> s, ipc::queue::List m);
  async::Task<void> handle(std::shared_ptr<Session> s, ipc::queue::Act m);
  async::Task<void> handle(std::shared_ptr<Session> s, ipc::queue::Show m);
  async::Task<void> handle(std::shared_ptr<Session> s, ipc::queue::AskStatus m);
  async::Task<void> handle(std::shared_ptr<Session> s, ipc::queue::ListSpool m);
  async::Task<void> handle(std::shared_ptr<Session> s, ipc::queue::Freeze m);
  async::Task<void> handle(std::shared_ptr<Session> s, ipc::queue::Thaw m);
  async::Task<void> handle(std::shared_ptr<Session> s, ipc::queue::Watch m);
  struct SpoolOwners;
  async::Task<Seen> note_owner(const queue_log::Listed& l, SpoolOwners& owners);
  ipc::queue::SpoolFile spool_file(spool::FileNumber number, const SpoolOwners& owners);
  async::Task<Seen> list_one(Session& s, const ipc::queue::List& m, const QueueFilter& filter,
                             const queue_log::Listed& l, std::uint64_t& count);
  async::Task<Seen> list_briefly(Session& s, const ipc::queue::List& m, const QueueFilter& filter,
                                 const queue_log::Listed& l, std::uint64_t& count);
  async::Task<bool> list_dropped(Session& s, const ipc::queue::List& m, const QueueFilter& filter,
                                 const submission::Dropped& d, Shown& shown);
  /// What becomes of a message in a listing if its envelope cannot be read.
  Seen unread(Session& s, std::uint64_t request, const queue_log::Listed& l, const Error& why, std::uint64_t& count);
  async::Task<bool> send(Session& s, std::vector<ipc::queue::Entry> parts);
  /// Reports damage to a message that was to be shown. Errors: of the channel.
  Result<void> tell_fault(Session& s, std::uint64_t request, const queue_log::Listed& l, std::string what);
  Result<bool> show_one(Session& s, std::uint64_t request, const queue_log::Listed& l);

  struct Run;
  /// The order to remove, in maildrop. false: the tool is gone.
  async::Task<bool> remove_dropped(Session& s, const ipc::queue::Act& m, const QueueFilter& filter, Run& run,
                                   const submission::Dropped& d);
  async::Task<void> carry_out(Session& s, const ipc::queue::Act& m, std::shared_ptr<Run> run);
  /// Why the order cannot be given here; empty: it can.
  std::string refusal(const ipc::queue::Act& m) const;
  async::Task<void> run_order(Session& s, const ipc::queue::Act& m, std::shared_ptr<Run> run);
  async::Task<std::uint64_t> count_meant(Session& s, ipc::queue::Act m);
  async::Task<bool> look_through(Session& s, const ipc::queue::Act& m, std::shared_ptr<Run> run,
                                 std::vector<std::string> ids, WallTime began);
  /// Whether the order is for this message. Reads its envelope if it must.
  bool meant(const ipc::queue::Act& m, const QueueFilter& filter, const queue_log::Listed& l, WallTime began,
             const Run& run);
  void give(const queue_log::Listed& l, const ipc::queue::Act& m, const std::shared_ptr<Run>& run, std::string by);
  /// Or some time without one.
  async::Task<void> next_commit();

  async::Loop& loop_;
  Watches watches_;
  Walks walks_;
  Manager& manager_;
  Maildrop maildrop_;
  bool orders_only_;
  std::function<std::vector<ipc::queue::StatusLine>()> status_;
  OpenBody open_body_;
  spool::Spool* spool_;  // nullptr: there is none
};

/// The entry that a tool shows for a message; without its recipients.
ipc::queue::Entry to_entry(const Active& m, ipc::queue::Place place);
ipc::queue::Entry to_entry(const queue_log::Listed& l);
ipc::queue::Entry to_entry(const submission::Dropped& d);

}  // namespace pen::qmgr
