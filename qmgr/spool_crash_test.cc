// Cuts the power, or kills qmgr, at every operation of random workloads on a spool together with its queue log, and
// looks at what the next start makes of it. Deterministic; PEN_CRASH_SEED and PEN_CRASH_CUTS change seed and amount.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <iostream>
#include <set>

#include "lib/base/codec.h"
#include "lib/base/file_io.h"
#include "lib/queue/queue_log/queue_log.h"
#include "lib/queue/queue_log/scan.h"
#include "lib/queue/queue_log/testing/fault_storage.h"
#include "lib/queue/spool/breakage.h"
#include "lib/queue/spool/fault_files.h"
#include "lib/queue/spool/spool.h"
#include "lib/testing/environment.h"
#include "lib/testing/manual_clock.h"
#include "qmgr/orphan_pass.h"

using namespace pen;
using namespace pen::spool;
using queue_log::QueueLog;
using testing::FaultStorage;
using testing::from_environment;
using testing::ManualClock;

namespace {

struct Violation {
  std::string what;
};

/// A body that no other message has, reproducible from what its envelope says.
struct Content {
  std::uint64_t seed = 0;
  std::uint64_t size = 0;
  std::string bytes() const {
    std::string out;
    for (std::uint64_t i = 0; out.size() < size; ++i) out += fmt::format("{}.{} ", seed, i);
    out.resize(size);
    return out;
  }
};

struct Payload {
  BodyRef body = 0;
  std::uint64_t seed = 0;
  std::uint64_t size = 0;
  PEN_FIELDS(body, seed, size)
};

struct Known {
  std::vector<Payload> versions;  // more than one: it was taken again
  bool accepted = false;
  bool finish_called = false;
  bool has(const Payload& p) const {
    return std::ranges::any_of(versions, [&](const Payload& v) { return v.body == p.body; });
  }
};
using Ledger = std::map<std::string, Known>;

queue_log::Options log_options() {
  queue_log::Options o;
  o.segment_size = 8192;
  o.intervals = {seconds(300)};
  o.reserve = 8 * 1024;
  o.save_every = 8000;
  o.suffix_limit = 16384;
  return o;
}

/// Disk and process: the queue log and the spool that qmgr has open, and what it does with them.
struct Machine {
  FaultStorage log_disk;
  FaultDisk disk;
  ManualClock clock;
  Random random;
  std::unique_ptr<QueueLog> log;
  std::unique_ptr<Spool> spool;
  std::unique_ptr<qmgr::OrphanPass> orphan_pass;

  explicit Machine(std::uint64_t seed) : random(seed) {}
  Machine(FaultStorage log_disk_in, FaultDisk disk_in, std::uint64_t seed)
      : log_disk(std::move(log_disk_in)), disk(std::move(disk_in)), random(seed) {
    clock.advance(seconds(100000));
  }

  void open() {
    auto opened = QueueLog::open(log_disk, log_options(), clock, random);
    if (!opened) throw Violation{"open: " + opened.error().message()};
    log = *std::move(opened);
    auto bodies = Spool::open(disk.files(), 0, [this] { return random.next(); }, 1);
    if (!bodies) throw Violation{"spool: " + bodies.error().message()};
    spool = *std::move(bodies);
  }
  void close() {
    orphan_pass.reset();
    spool.reset();
    log.reset();
  }
  /// One slice of qmgr's own pass for files that nobody owns. False: it has ended.
  bool look_for_orphans(std::size_t slice) {
    if (!orphan_pass)
      orphan_pass = std::make_unique<qmgr::OrphanPass>(
          *log, *spool, [](const queue_log::Stored& s) { return payload_of(s).body; },
          [](const std::string& id) { throw Violation{id + ": its file is missing"}; });
    switch (orphan_pass->step(slice)) {
      case qmgr::OrphanPass::Step::more:
        return true;
      case qmgr::OrphanPass::Step::unsettled:
        commit();
        return true;
      case qmgr::OrphanPass::Step::given_up:
        throw Violation{"the orphan pass gives up"};
      case qmgr::OrphanPass::Step::ended:
        break;
    }
    orphan_pass.reset();
    return false;
  }
  static Payload payload_of(const queue_log::Stored& stored) {
    auto p = decode<Payload>(stored.envelope.payload);
    if (!p) throw Violation{stored.envelope.queue_id + " is corrupted"};
    return *p;
  }
  void verify(const std::string& id, const Payload& p) {
    auto fd = spool->open_to_read(p.body);
    if (!fd) throw Violation{id + ": " + fd.error().message()};
    auto bytes = read_at(fd->get(), kContentOffset, p.size, "read");
    if (!bytes || *bytes != Content{p.seed, p.size}.bytes()) throw Violation{id + " has other content"};
  }
  queue_log::Envelope envelope(const std::string& id, const Payload& p) {
    queue_log::Envelope e;
    e.queue_id = id;
    e.recipients = 1;
    e.remaining = queue_log::OrdinalSet::one(0);
    e.size = p.size;
    e.self_contained = p.body == 0;
    Encoder(e.payload)(p);
    e.domains = {std::string(p.seed % 1200, 'd')};  // so that messages live in segments with footers, too
    return e;
  }
  void commit() {
    while (auto batch = log->commits().next_batch()) {
      auto executed = batch->execute(log_disk);
      auto done = log->commits().complete(*std::move(batch), std::move(executed));
      if (!done) throw Violation{"commit: " + done.error().message()};
      spool->reclaim(log->commits().last_save());
    }
  }
};

/// What a cut left, started again. Chains further cuts while it starts.
class Checker {
 public:
  Checker(const Ledger& ledger, Random& random, std::uint64_t& cuts) : ledger_(ledger), random_(random), cuts_(cuts) {}

  void check(FaultStorage log_disk, FaultDisk disk, int depth) {
    ++cuts_;
    Machine m(std::move(log_disk), std::move(disk), random_.next());
    const std::uint64_t at = depth > 0 ? random_.below(20) : UINT64_MAX;
    std::uint64_t seen = 0;
    auto hook = [&] {
      if (seen++ != at) return;
      const auto how = FaultStorage::kCuts[random_.below(5)];
      check(m.log_disk.cut(how, random_), m.disk.cut(how, random_), depth - 1);
    };
    if (depth > 0) {
      m.log_disk.before_operation = [&](const FaultStorage&) { hook(); };
      m.disk.before_operation = hook;
    }
    m.open();
    // New mail comes in before anything is known of the files that are there.
    const std::string early = accept(m);
    m.clock.advance(seconds(1000));
    while (m.log->restart().stage() != queue_log::Recovery::done) {
      if (!m.log->restart().step(4096)) throw Violation{"recovery failed"};
      m.commit();
    }
    while (m.look_for_orphans(7)) {
    }
    m.log_disk.before_operation = nullptr;
    m.disk.before_operation = nullptr;
    auto found = messages(m);
    for (const auto& [id, known] : ledger_)
      if (known.accepted && !known.finish_called && !found.contains(id))
        throw Violation{id + " was acknowledged and is lost"};
    if (!found.contains(early)) throw Violation{"new mail is lost"};
    // Nothing leaks: each file belongs to a message or to the pool.
    const auto figures = m.spool->figures();
    if (figures.unknown != 0 || figures.leased != 0 || figures.retiring != 0)
      throw Violation{"files in no state that a pool at rest has"};
    if (figures.used != found.size() || figures.used + figures.free != m.disk.file_count())
      throw Violation{fmt::format("a file leaked: {} files, {} messages, {} free", m.disk.file_count(), found.size(),
                                  figures.free)};
    use_every_free_file(m);
    for (const auto& [id, payload] : found) m.verify(id, payload);
    finish_all(m, found.size());
  }

 private:
  std::string accept(Machine& m) {
    const std::string id = "early" + std::to_string(++serial_);
    Payload p{0, random_.next(), 900};
    auto lease = m.spool->lease(0);
    if (!lease) throw Violation{"lease: " + lease.error().message()};
    m.disk.write(lease->fd.get(), Content{p.seed, p.size}.bytes(), kContentOffset);
    m.disk.sync(lease->fd.get());
    auto ref = m.spool->take(lease->lease, id, p.size);
    if (!ref) throw Violation{"take: " + ref.error().message()};
    p.body = *ref;
    early_[id] = p;
    if (!m.log->append(m.envelope(id, p))) throw Violation{"append failed"};
    m.commit();
    return id;
  }

  std::multimap<std::string, Payload> messages(Machine& m) {
    std::multimap<std::string, Payload> found;
    auto scan = m.log->scan();
    while (!scan->done()) {
      auto some = scan->step(100);
      if (!some) throw Violation{"scan failed"};
      for (const auto& listed : *some) {
        auto stored = m.log->runners().read(listed.place);
        if (!stored) throw Violation{listed.queue_id + " unreadable"};
        const Payload p = Machine::payload_of(*stored);
        found.emplace(listed.queue_id, p);
        const auto known = ledger_.find(listed.queue_id);
        const bool given = known != ledger_.end() ? known->second.has(p) : early_[listed.queue_id].body == p.body;
        if (!given) throw Violation{listed.queue_id + " refers to another file"};
        m.verify(listed.queue_id, p);
      }
    }
    return found;
  }

  void use_every_free_file(Machine& m) {
    std::vector<Spool::Lease> all;
    for (auto n = m.spool->figures().free; n > 0; --n) {
      auto lease = m.spool->lease(0);
      if (!lease) throw Violation{"lease: " + lease.error().message()};
      m.disk.write(lease->fd.get(), std::string(6000, 'X'), kContentOffset);
      all.push_back(*std::move(lease));
    }
    for (const auto& lease : all) m.spool->give_back(lease.lease);
  }

  /// The end of every message brings its file back.
  void finish_all(Machine& m, std::size_t count) {
    std::size_t ended = 0, lost = 0;
    for (queue_log::LogId id = 0; id < m.log->runners().log_count(); ++id) {
      if (id == queue_log::kHold) continue;
      for (;;) {
        auto due = m.log->runners().next_due(id, WallTime(seconds(2'000'000'000)));
        if (!due) throw Violation{"runner failed"};
        if (!due->message && !due->more) break;
        if (!due->message) continue;
        const std::string& queue_id = due->message->envelope.queue_id;
        const auto started = m.log->work().start(*due->message);
        if (!started && started.error().is(queue_log::QueueLogError::superseded)) {
          ++lost;  // its file is found to be nobody's by the next start
          continue;
        }
        if (!started || !m.log->work().finish(queue_id)) throw Violation{"no end"};
        m.spool->release(Machine::payload_of(*due->message).body, m.log->commits().next_save());
        ++ended;
      }
    }
    if (ended + lost != count) throw Violation{"not every message is run"};
    m.log->commits().save_positions();
    m.log->commits().flush();
    m.commit();
    if (m.spool->figures().free + lost != m.disk.file_count()) throw Violation{"a file did not come back to the pool"};
  }

  const Ledger& ledger_;
  Random& random_;
  std::uint64_t& cuts_;
  std::map<std::string, Payload> early_;
  int serial_ = 0;
};

enum class Receiver { correct, does_not_sync };

class Workload {
 public:
  Workload(std::uint64_t seed, std::uint64_t& cuts, Receiver kind = Receiver::correct)
      : random_(seed), cuts_(cuts), kind_(kind), m_(random_.next()) {
    hook();
  }

  void run(int acts) {
    start();
    for (int i = 0; i < acts; ++i) {
      act();
      if (random_.chance(0.5)) commit();
      if (random_.chance(0.02)) restart();
    }
    commit();
  }

 private:
  struct Upload {
    Fd fd;
    std::uint64_t lease = 0;  // 0: of a qmgr that is dead, or given back
    std::string id;
    Payload payload;
    std::uint64_t written = 0;
  };
  static constexpr std::size_t kUploads = 5;
  static constexpr std::size_t kMessages = 12;

  void hook() {
    m_.log_disk.before_operation = [this](const FaultStorage&) { cut(); };
    m_.disk.before_operation = [this] { cut(); };
  }
  void cut() {
    for (const auto how : FaultStorage::kCuts) {
      const int depth = random_.chance(0.3) ? 1 + static_cast<int>(random_.below(2)) : 0;
      Checker(ledger_, random_, cuts_).check(m_.log_disk.cut(how, random_), m_.disk.cut(how, random_), depth);
    }
  }

  void start() {
    ++process_;
    tickets_.clear();
    working_.clear();
    over_.clear();
    m_.open();
    while (m_.log->restart().stage() != queue_log::Recovery::done) {
      receive();
      if (!m_.log->restart().step(2048)) throw Violation{"recovery failed"};
      commit();
    }
    forget_what_is_gone();
    // The pass goes on beside the work.
    while (m_.look_for_orphans(1 + random_.below(3))) {
      act();
      if (random_.chance(0.5)) commit();
    }
  }

  void restart() {
    const auto how = FaultStorage::kCuts[random_.below(5)];
    m_.close();
    m_.log_disk.before_operation = nullptr;
    m_.disk.before_operation = nullptr;
    if (how == FaultDisk::Cut::kill) {
      // Receivers go on writing under leases that nobody knows any more.
      for (auto& u : uploads_) u.lease = 0;
    } else {
      uploads_.clear();
      readers_.clear();
      m_.disk = m_.disk.cut(how, random_);
    }
    m_.log_disk = m_.log_disk.cut(how, random_);
    hook();
    start();
  }

  /// What was asked for and not confirmed came true or not: the truth from now on is what is there.
  void forget_what_is_gone() {
    std::set<std::string> there;
    auto scan = m_.log->scan();
    while (!scan->done()) {
      auto some = scan->step(100);
      if (!some) throw Violation{"scan failed"};
      for (const auto& listed : *some) there.insert(listed.queue_id);
    }
    std::erase_if(ledger_, [&](const auto& e) { return !there.contains(e.first); });
    for (auto& [id, known] : ledger_) known.finish_called = false;
  }

  void commit() {
    if (random_.chance(0.3)) m_.log->commits().flush();
    if (random_.chance(0.2)) m_.log->commits().save_positions();
    m_.commit();
    while (!over_.empty() && over_.begin()->first <= m_.log->commits().last_save()) {
      const auto ended = ledger_.find(over_.begin()->second);
      // An older version may still be there, until a runner comes to it.
      if (ended != ledger_.end() && ended->second.versions.size() == 1) ledger_.erase(ended);
      over_.erase(over_.begin());
    }
    while (!tickets_.empty() && tickets_.begin()->first <= m_.log->commits().committed()) {
      if (const auto known = ledger_.find(tickets_.begin()->second); known != ledger_.end())
        known->second.accepted = true;
      tickets_.erase(tickets_.begin());
    }
  }

  void act() {
    read_on();
    if (random_.chance(0.6))
      receive();
    else
      deliver();
    if (random_.chance(0.05)) {  // time passes, and the pool has files that it did not need
      m_.clock.advance(seconds(1000));
      if (!m_.spool->shrink(m_.clock.now())) throw Violation{"shrink failed"};
    }
  }

  void receive() {
    if (uploads_.size() < kUploads && ledger_.size() < kMessages && random_.chance(0.4)) {
      Upload u;
      u.id = "M" + std::to_string(++serial_);
      // A drop file that came back, or a receiver that asks once more.
      if (!ledger_.empty() && random_.chance(0.1)) {
        auto one = ledger_.begin();
        std::advance(one, static_cast<std::ptrdiff_t>(random_.below(ledger_.size())));
        if (std::ranges::none_of(uploads_, [&](const Upload& o) { return o.id == one->first; })) u.id = one->first;
      }
      u.payload.seed = random_.next() % 100000;
      u.payload.size = 1 + random_.below(random_.chance(0.3) ? 9000 : 700);
      auto lease = m_.spool->lease(random_.chance(0.5) ? u.payload.size : 0);
      if (!lease) throw Violation{"lease: " + lease.error().message()};
      u.fd = std::move(lease->fd);
      u.lease = lease->lease;
      uploads_.push_back(std::move(u));
      return;
    }
    if (uploads_.empty()) return;
    const auto which = uploads_.begin() + static_cast<std::ptrdiff_t>(random_.below(uploads_.size()));
    Upload& u = *which;
    const std::string bytes = Content{u.payload.seed, u.payload.size}.bytes();
    if (u.lease == 0) {  // its lease is over, and it does not know
      m_.disk.write(u.fd.get(), bytes, kContentOffset);
      if (random_.chance(0.15)) uploads_.erase(which);
      return;
    }
    if (u.written < bytes.size()) {
      const std::uint64_t n = std::min<std::uint64_t>(bytes.size() - u.written, 3000);
      m_.disk.write(u.fd.get(), std::string_view(bytes).substr(u.written, n), kContentOffset + u.written);
      u.written += n;
      // It gives up; a write of its own may still be under way, and come later.
      if (random_.chance(0.1)) {
        m_.spool->give_back(std::exchange(u.lease, 0));
        if (random_.chance(0.5)) uploads_.erase(which);
      }
      return;
    }
    if (random_.chance(0.1)) {  // its sync fails: nothing may be said of this content
      m_.disk.fail_sync(u.fd.get());
      m_.spool->give_back(u.lease);
    } else {
      if (kind_ == Receiver::correct) m_.disk.sync(u.fd.get());
      enqueue(u);
    }
    uploads_.erase(which);
  }

  void enqueue(Upload& u) {
    auto ref = m_.spool->take(u.lease, u.id, u.payload.size);
    if (!ref) throw Violation{"take: " + ref.error().message()};
    u.payload.body = *ref;
    const bool first = !ledger_.contains(u.id);
    ledger_[u.id].versions.push_back(u.payload);
    auto appended = m_.log->append(m_.envelope(u.id, u.payload));
    if (!appended || appended->duplicate) {
      ledger_[u.id].versions.pop_back();
      if (first) ledger_.erase(u.id);
      m_.spool->release(*ref, m_.log->commits().next_save());
      if (!appended) return;
    } else {
      ledger_[u.id].finish_called = false;
    }
    tickets_.emplace(appended->ticket, u.id);
  }

  /// What was given out to read, whatever became of qmgr and of the message since.
  void read_on() {
    for (const Reader& r : readers_) {
      auto bytes = read_at(r.fd.get(), kContentOffset, r.payload.size, "read");
      if (!bytes || *bytes != Content{r.payload.seed, r.payload.size}.bytes())
        throw Violation{r.id + ": somebody who read it came to read something else"};
    }
    if (readers_.size() > 6) readers_.erase(readers_.begin());
  }

  void deliver() {
    if (m_.log->restart().stage() != queue_log::Recovery::done) return;
    if (working_.size() < 4) {
      if (random_.chance(0.2)) m_.clock.advance(seconds(200));
      const auto id = random_.chance(0.5) ? queue_log::kJournal : queue_log::kFirstRetry;
      auto due = m_.log->runners().next_due(id, m_.clock.wall_now());
      if (!due) throw Violation{"runner: " + due.error().message()};
      if (due->message && m_.log->work().start(*due->message)) {
        const std::string queue_id = due->message->envelope.queue_id;
        working_[queue_id] = Machine::payload_of(*due->message);
        m_.verify(queue_id, working_[queue_id]);
        auto fd = m_.spool->open_to_read(working_[queue_id].body);
        if (!fd) throw Violation{queue_id + ": " + fd.error().message()};
        readers_.push_back({*std::move(fd), queue_id, working_[queue_id], process_});
      }
      return;
    }
    auto it = working_.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(random_.below(working_.size())));
    const auto [id, payload] = *it;
    m_.verify(id, payload);  // as a delivery agent does that comes late
    if (random_.chance(0.3)) {
      if (m_.log->work().defer(id, queue_log::kFirstRetry, m_.envelope(id, payload))) working_.erase(it);
      return;
    }
    ledger_[id].finish_called = true;
    if (!m_.log->work().finish(id)) return;
    // Its reader has answered; or it is lost, and may go on.
    if (!random_.chance(0.2))
      std::erase_if(readers_, [&](const Reader& r) { return r.id == id && r.process == process_; });
    m_.spool->release(payload.body, m_.log->commits().next_save());
    working_.erase(it);
    over_.emplace(m_.log->commits().next_save(), id);
  }

  Random random_;
  std::uint64_t& cuts_;
  Receiver kind_;
  Machine m_;
  Ledger ledger_;
  std::vector<Upload> uploads_;
  struct Reader {
    Fd fd;
    std::string id;
    Payload payload;
    int process;  // that gave it out
  };
  std::vector<Reader> readers_;
  int process_ = 0;
  std::map<std::string, Payload> working_;
  std::multimap<queue_log::Ticket, std::string> tickets_;
  std::multimap<std::uint64_t, std::string> over_;  // by the save after which no cut brings them back
  int serial_ = 0;
};

/// Sanitizers slow this down; what they look for shows in fewer cuts.
#ifdef PEN_FEW
constexpr std::uint64_t kCutsInCheck = 5'000;
#else
constexpr std::uint64_t kCutsInCheck = 30'000;
#endif

/// Runs workloads until so many cuts were made; nullopt: no violation.
std::optional<std::string> campaign(std::uint64_t wanted, std::uint64_t& cuts, Receiver kind = Receiver::correct) {
  for (std::uint64_t seed = from_environment("PEN_CRASH_SEED", 1); cuts < wanted; ++seed) {
    try {
      Workload(seed, cuts, kind).run(120);
    } catch (const Violation& v) {
      return fmt::format("seed {}: {}", seed, v.what);
    }
  }
  return std::nullopt;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(spool_crash)

BOOST_AUTO_TEST_CASE(no_cut_loses_or_mixes_up_bodies_and_no_file_leaks) {
  const std::uint64_t wanted = from_environment("PEN_CRASH_CUTS", kCutsInCheck);
  std::uint64_t cuts = 0;
  const auto violation = campaign(wanted, cuts);
  BOOST_CHECK_MESSAGE(!violation, violation.value_or(""));
  std::cout << "spool: " << cuts << " cuts" << std::endl;
  BOOST_TEST(cuts >= wanted);
}

#ifndef PEN_SANITIZED  // sanitizers look for other things, in the test above
BOOST_AUTO_TEST_CASE(each_deliberate_breakage_is_caught) {
  for (int b = 1; b < static_cast<int>(Breakage::any_use_fits); ++b) {
    BreakageScope broken(static_cast<Breakage>(b));
    std::uint64_t cuts = 0;
    const auto violation = campaign(20'000, cuts);
    BOOST_CHECK_MESSAGE(violation, "breakage " << b << " was not caught in " << cuts << " cuts");
    if (violation) std::cout << "breakage " << b << ": after " << cuts << " cuts: " << *violation << std::endl;
  }
  std::uint64_t cuts = 0;
  BOOST_TEST(campaign(20'000, cuts, Receiver::does_not_sync).has_value());
}
#endif

BOOST_AUTO_TEST_SUITE_END()
