#include "qmgr/program.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/check.h"
#include "lib/base/log.h"
#include "qmgr/egress.h"
#include "qmgr/orphan_pass.h"

namespace pen::qmgr {

bool advise_on_disk(std::string_view where, const Error& why) {
  if (why.is_errno(EIO)) {
    log::error(
        "the disk of {} does not take or give data, see the next line: look at the kernel's log, and repair or replace "
        "the disk. The queue is as it was at the last sync, and new mail is put off meanwhile. When the disk works, "
        "qmgr goes on by itself: it is started again within a minute",
        where);
    return true;
  }
  if (why.is_errno(ENOSPC) || why.is_errno(EDQUOT) || why.is(queue_log::QueueLogError::no_space)) {
    log::error(
        "the disk of {} is full, or its quota is used up, see the next line: free space there. "
        "What is in the queue stays in it, and new mail is put off with 4xx meanwhile. When there "
        "is space, qmgr goes on by itself: it is started again within a minute",
        where);
    return true;
  }
  return false;
}

Program::Program(async::Loop& loop, ProgramOptions options, queue_log::Storage& storage, queue_log::QueueLog& log,
                 spool::Spool* spool, destdb::DestDb& destinations)
    : loop_(loop),
      options_(std::move(options)),
      log_(log),
      spool_(spool),
      destinations_(destinations),
      pool_(loop, 1),
      random_(options_.seed),
      writer_(loop, log, storage, [this](const Error& e) { fatal(e); }),
      router_(loop, options_.path(ipc::kRewriteSocket)),
      bounce_(loop, options_.path(ipc::kBounceSocket)),
      verify_(loop, options_.path(ipc::service_socket(options_.verify_service)), log::as_warning),
      suppression_(options_.manager.suppression
                       ? std::make_shared<suppression::Client>(loop, options_.path(ipc::kAnvilSocket),
                                                               suppression::Client::Options{.report = log::as_warning})
                       : nullptr),
      shared_(options_.cluster ? std::make_unique<SharedDestinations>(loop, *options_.cluster, destinations) : nullptr),
      scheduler_(std::make_unique<Scheduler>(options_.scheduler, options_.limits,
                                             shared_ ? static_cast<destdb::Table&>(*shared_) : destinations, random_)),
      manager_(std::make_unique<Manager>(options_.manager, log, *scheduler_, *this, loop.clock())),
      enqueue_(loop, *manager_, spool, options_.manager.inline_limit),
      queue_(
          loop, *manager_, Maildrop(pool_, options_.path("maildrop"), options_.maildrop_keeper), options_.orders_only,
          [this] { return status(); },
          [this](std::uint64_t file, const std::string& id) -> Result<Fd> {
            if (spool_ == nullptr) return fail_errno(id, ENOENT);
            return spool_->open_apart(file);
          },
          spool),
      destination_server_(loop, *manager_, destinations, shared_.get(), options_.limits,
                          {options_.classes, options_.path(ipc::kAnvilSocket)},
                          [this] { return destination_writer_.write(); }),
      guests_(loop, options_.guests),
      committed_(loop),
      destination_writer_(loop, pool_, destinations, edges_to_destinations()) {}

Program::~Program() = default;

void Program::start_sessions() {
  if (!options_.classes) return;
  sessions_ = std::make_shared<sessions::Holder>(
      loop_, options_.path(ipc::kAnvilSocket), options_.classes,
      sessions::Holder::Events{
          .room = [this](std::uint32_t session_class) { manager_->event()->scheduler.session_room(session_class); },
          .wanted =
              [this](std::uint32_t session_class) { return manager_->event()->scheduler.yield_session(session_class); },
          .report = log::as_warning},
      sessions::Holder::Options{});
  sessions_->start();
}

void Program::ask_suppression(const ipc::suppression::Ask& question) {
  loop_.spawn("suppression", find_standing(this, question));
}

async::Task<void> Program::find_standing(Program* self, ipc::suppression::Ask question) {
  const std::uint64_t request = question.request;
  auto answer = co_await self->suppression_->ask(std::move(question), {});  // bounded by its answer time
  answer.request = request;
  self->manager_->event()->routes.suppression_answer(answer);
}

void Program::ask_session(ConnectionNumber connection, std::uint32_t session_class,
                          const ipc::Destination& destination) {
  PEN_CHECK(sessions_ != nullptr, "a session class where there are none");
  leases_[connection] = sessions_->take(sessions::Direction::outgoing, session_class, destination.host,
                                        destination.address, [this, connection](bool granted) {
                                          if (!granted) leases_.erase(connection);
                                          manager_->event()->connections.session_answer(connection, granted);
                                        });
}

void Program::release_session(ConnectionNumber connection) {
  const auto at = leases_.find(connection);
  if (at == leases_.end()) return;
  sessions_->release(at->second);
  leases_.erase(at);
}

bool Program::ask_share(ConnectionNumber connection, const std::string& key, std::uint32_t limit,
                        const std::string& address) {
  return shared_ && shared_->ask_share(connection, key, limit, address);
}

void Program::release_share(ConnectionNumber connection) {
  if (shared_) shared_->gone(connection);
}

void Program::start() {
  writer_.on_commit([this] {
    committed_.set();
    manager_->committed();
    if (spool_ != nullptr) spool_->reclaim(log_.commits().last_save());
  });
  loop_.spawn("recovery", recover());
  loop_.spawn("flush", keep_flushing());
  if (options_.orders_only) return;
  if (options_.tenant_weights)
    options_.tenant_weights->when_known([this](std::string_view tenant, std::uint32_t weight) {
      manager_->event()->scheduler.tenant_weight(tenant, weight);
    });
  router_.start(*manager_);
  bounce_.start(*manager_);
  verify_.start();
  if (shared_) shared_->start(*manager_);
  start_sessions();
  load_notes();
  loop_.spawn("destinations", destination_writer_.run());
}

DestinationWriter::Edges Program::edges_to_destinations() {
  Egress* const egress = options_.manager.egress.get();
  return {.spent = [this](bool last) { return manager_->event()->scheduler.take_spent(last); },
          .ledger = egress == nullptr ? nullptr : &egress->ledger(),
          .counts_written = [this] { manager_->event()->routes.counts_written(); },
          .forgotten =
              [this](const std::vector<std::string>& keys) {
                auto event = manager_->event();
                for (const auto& key : keys) event->scheduler.forgotten(key);
              }};
}

void Program::load_notes() {
  Egress* const egress = options_.manager.egress.get();
  std::vector<std::string> stale;
  for (const auto& [key, value] : destinations_.notes()) {
    if (key == SharedDestinations::kHostsNote) continue;
    if (key.starts_with(kSpentKey) ? !manager_->event()->scheduler.load_spent(key, value)
                                   : egress != nullptr && !egress->ledger().load(value))
      stale.push_back(key);
  }
  for (const auto& key : stale) destinations_.note(key, std::nullopt);
  if (egress != nullptr) egress->set_by_hand(&destinations_.suspensions());
}

void Program::fatal(const Error& why) {
  advise_on_disk("queue_log_directory", why);
  log::fatal("{}", why.message());
}

void Program::settle_soon() {
  if (settling_soon_) return;
  settling_soon_ = true;
  loop_.post([this] {
    settling_soon_ = false;
    settle();
  });
}

void Program::settle() {
  writer_.hand_over();  // new mail is being written while the rest is worked on
  manager_->settle();
  writer_.kick();
  set_timer();
}

void Program::set_timer() {
  const SteadyTime at = manager_->wake_at();
  if (at == kNever) {
    timer_.reset();
    timer_at_ = kNever;
    return;
  }
  if (at <= loop_.clock().now()) {
    settle_soon();
    return;
  }
  if (timer_ && timer_at_ <= at) return;  // it fires earlier, and looks again
  timer_at_ = at;
  timer_ = loop_.call_at(at, [this] {
    timer_at_ = kNever;
    timer_.reset();
    settle_soon();
  });
}

async::Task<void> Program::recover() {
  // In slices between other work: new mail is taken all the while.
  SteadyTime moved_at = loop_.now();
  SteadyTime warned_at = moved_at - seconds(60);
  std::uint64_t seen = 0;
  for (;;) {
    auto step = log_.restart().step(1U << 20);
    report_damage();
    if (!step) fatal(std::move(step).error().within("recovery of the queue"));
    if (*step == queue_log::Recovery::done) break;
    writer_.kick();
    const auto now_at = log_.restart().report().bytes_read + log_.figures().appended_bytes;
    if (now_at != seen) moved_at = loop_.now();
    seen = now_at;
    if (loop_.now() - moved_at > seconds(2)) {
      // On a busy machine a commit may take as long. Where a segment is lacking the writer asks the disk for one every
      // second.
      if (log_.restart().report().waits_for_space && loop_.now() - warned_at > seconds(30)) {
        warned_at = loop_.now();
        log::warning(
            "recovery of the queue waits for space: free {} bytes on the disk of queue_log_directory (files "
            "damaged-segment-* there may go once they were looked at); it goes on by itself",
            log_.restart().report().segment_size);
      }
      (void)co_await loop_.sleep(milliseconds(500));
    }
    if (*step == queue_log::Recovery::settling) {
      committed_.reset();
      (void)co_await committed_.wait({.deadline = loop_.now() + milliseconds(100)});
    } else {
      co_await loop_.yield();
    }
  }
  const auto& r = log_.restart().report();
  log::info("queue recovered: epoch {}, {} segments, {} bytes read, {} messages in work, {} deliveries, {} torn bytes",
            r.epoch, r.segments, r.bytes_read, r.working, r.deliveries, r.torn_bytes);
  torn_told_ = r.torn_bytes;
  if (!options_.orders_only) {
    loop_.spawn("orphans", find_orphans());
    if (options_.found_empty) loop_.spawn("mail", look_for_mail());
    loop_.spawn("hold log", keep_hold_log_short());
  }
  settle_soon();
}

void Program::report_damage() {
  const auto& damage = log_.restart().report().damage;
  if (log_.restart().stage() == queue_log::Recovery::done && log_.restart().report().torn_bytes > torn_told_) {
    torn_told_ = log_.restart().report().torn_bytes;
    log::warning(
        "queue log: {} bytes at the ends of what was written are not whole records: writes that a "
        "crash cut (nobody was told that they were done), or damage to the last of them",
        torn_told_);
  }
  if (damage_told_ == log_.restart().report().damage_count) return;
  for (std::size_t i = damage_told_; i < damage.size(); ++i) {
    const auto& d = damage[i];
    const std::string_view where = d.slot == queue_log::kPositionsSlot && d.use == 0 ? "positions"
                                   : d.log == queue_log::kJournal                    ? "journal"
                                   : d.log == queue_log::kHold                       ? "hold log"
                                                                                     : "retry log";
    log::error("queue log damaged: {}, slot {}, use {}, offset {}, {} bytes: {}{}{}", where, d.slot, d.use, d.offset,
               d.bytes, d.what, d.queue_id.empty() ? "" : ": message ", d.queue_id);
  }
  damage_told_ = log_.restart().report().damage_count;
  log::error(
      "queue log damaged in {} places: check the disk; what is whole is delivered; a damaged "
      "segment is not used again, it is kept as damaged-segment-NNNNNNNN (its slot) in "
      "queue_log_directory once nothing in it is needed, for you to look at and remove",
      damage_told_);
}

void Program::give_memory_back() {
  // The messages of a large active set lie between what lives longer: free() gives back only what is at the end, and
  // even malloc_trim() nothing while the log remembers each of them, until its garbage marks are written with a save.
  constexpr std::size_t kWorthIt = 2000;  // messages: some megabytes, for a few milliseconds
  if (trim_after_ && log_.commits().last_save() >= *trim_after_) {
    trim_after_.reset();
#ifdef __GLIBC__
    ::malloc_trim(0);
#endif
  }
  const std::size_t active = manager_->figures().active;
  most_active_ = std::max(most_active_, active);
  if (active + kWorthIt > most_active_ || active > most_active_ / 2) return;
  // A load that swings is not to be slowed down by it.
  if (loop_.now() < give_back_again_) return;
  give_back_again_ = loop_.now() + seconds(10);
  most_active_ = active;
  trim_after_ = log_.commits().next_save();
  log_.commits().save_positions();
  log_.commits().flush();
  writer_.kick();
}

async::Task<void> Program::keep_flushing() {
  // Records that nobody waits for reach the disk within a second of silence; an idle queue writes nothing.
  // Spool files of messages that are over wait for a save of positions: when their disk is full no mail comes in, and
  // without mail no save happens by itself.
  std::uint64_t seen = 0;
  for (;;) {
    (void)co_await loop_.sleep(seconds(1));
    report_damage();
    give_memory_back();
    const auto appended = log_.figures().appended_bytes;
    const bool files_wait = spool_ != nullptr && spool_->files_wait();
    if (spool_ != nullptr)
      if (auto shrunk = spool_->shrink(loop_.now()); !shrunk) log::warning("spool: {}", shrunk.error().message());
    if (appended == seen && log_.has_space() && !files_wait) continue;
    seen = appended;
    if (files_wait) log_.commits().save_positions();
    log_.commits().flush();
    writer_.kick();
  }
}

DeliveryAgents& Program::agents(const std::string& transport) {
  auto& slot = agents_[transport];
  if (!slot) {
    const auto several = options_.delivery_processes.find(transport);
    const unsigned processes = several == options_.delivery_processes.end() ? 1 : several->second;
    std::vector<std::string> paths;
    for (unsigned i = 1; i <= processes; ++i) paths.push_back(options_.path(ipc::service_socket(transport, i)));
    slot = std::make_unique<DeliveryAgents>(loop_, transport, paths, *manager_, [this](ConnectionNumber connection) {
      if (shared_) shared_->gone(connection);
    });
  }
  return *slot;
}

void Program::hand_job(const std::string& transport, ipc::delivery::Job& job, Fd body) {
  agents(transport).hand(job, std::move(body));
}

Result<Fd> Program::open_body(std::uint64_t spool_file, const std::string& queue_id) {
  if (spool_ == nullptr) return fail_errno(queue_id, ENOENT);
  return spool_->open_to_read(spool_file);
}

void Program::release_body(std::uint64_t spool_file, const std::string&) {
  if (spool_ != nullptr) spool_->release(spool_file, log_.commits().next_save());
}

async::Task<void> Program::make_way(SteadyTime began) {
  constexpr int kPause = 9;  // times what the work took
  const auto took = loop_.clock().now() - began;
  (void)co_await loop_.sleep(std::max<SteadyTime::duration>(milliseconds(1), kPause * took));
}

async::Task<void> Program::next_commit() {
  committed_.reset();
  (void)co_await committed_.wait({.deadline = loop_.now() + milliseconds(100)});
}

async::Task<void> Program::keep_hold_log_short() {
  constexpr std::size_t kSlice = std::size_t{256} << 10;
  for (;;) {
    if (manager_->bulk_order()) {
      (void)co_await loop_.sleep(seconds(1));
      continue;
    }
    const SteadyTime began = loop_.clock().now();
    const auto before = log_.figures().appended_bytes;
    const auto step = log_.compact_held(kSlice);
    if (!step) fatal(step.error());
    if (log_.figures().appended_bytes != before) log_.commits().save_positions();  // gives segments back
    switch (*step) {
      case queue_log::QueueLog::Compaction::idle:
        (void)co_await loop_.sleep(seconds(1));
        break;
      case queue_log::QueueLog::Compaction::waits:
        writer_.kick();
        co_await next_commit();
        break;
      case queue_log::QueueLog::Compaction::more:
        co_await make_way(began);
        break;
    }
  }
}

namespace {
void warn_of_orphans(const OrphanPass& pass) {
  const auto& [queue_id, why] = pass.gave_up();
  constexpr std::string_view kWaste =
      "the spool files that were there at the start, and are not known to be a message's, stay "
      "unused until the next start";
  if (queue_id.empty())
    log::warning("spool: the queue cannot be looked through ({}): {}. Check the disk", why, kWaste);
  else
    log::warning("{}: {}: {}. Check the disk, and remove the message (pensuper -d {}) once it was looked at", queue_id,
                 why, kWaste, queue_id);
}
}  // namespace

async::Task<void> Program::look_for_mail() {
  constexpr std::size_t kSlice = 50;
  const auto scan = log_.scan(queue_log::InTransit::shown);
  while (!scan->done()) {
    const SteadyTime began = loop_.clock().now();
    const auto some = scan->step(kSlice);
    if (!some || !some->empty()) co_return;
    writer_.kick();
    co_await make_way(began);
  }
  options_.found_empty();
}

async::Task<void> Program::find_orphans() {
  // Nothing waits for this: so a deep queue is read in small slices that leave most of the time to the mail.
  if (spool_ == nullptr) co_return;
  constexpr std::size_t kSlice = 50;
  constexpr auto kTurn = milliseconds(1);  // of slices, and one more
  const SteadyTime start = loop_.clock().now();
  OrphanPass pass(
      log_, *spool_, [](const queue_log::Stored& stored) { return spool_file_of(stored); },
      [](const std::string& queue_id) { log::error("{}: the spool file with its content is missing", queue_id); });
  for (bool ended = false; !ended;) {
    const SteadyTime began = loop_.clock().now();
    auto step = OrphanPass::Step::more;
    while (step == OrphanPass::Step::more && loop_.clock().now() - began < kTurn) step = pass.step(kSlice);
    writer_.kick();
    switch (step) {
      case OrphanPass::Step::ended:
        ended = true;
        break;
      case OrphanPass::Step::given_up:
        warn_of_orphans(pass);
        co_return;
      case OrphanPass::Step::unsettled:
        co_await next_commit();
        break;
      case OrphanPass::Step::more:
        co_await make_way(began);
        break;
    }
  }
  const auto& f = pass.figures();
  if (f.found == 0) co_return;
  log::info(
      "spool: {} files were there, {} of them without an owner, {} are missing; {} messages looked through in {} ms",
      f.found, f.orphans, f.missing, f.messages,
      std::chrono::duration_cast<milliseconds>(loop_.clock().now() - start).count());
}

void Program::tell_crowd(uid_t uid) {
  if (loop_.now() - crowd_told_ < seconds(60)) return;
  crowd_told_ = loop_.now();
  log::warning(
      "public/qmgr: uid {} is refused a connection: it has too many, or all users together have {} (told once a "
      "minute)",
      uid, guests_.connections());
}

async::Task<void> Program::serve(async::Stream stream) {
  const auto peer = async::peer_credentials(stream.fd());
  if (!peer) {
    log::warning("public/qmgr: {}", peer.error().message());
    co_return;
  }
  const uid_t uid = peer->uid;
  bool trusted = uid == 0 || uid == ::getuid() || (options_.mail_owner && uid == *options_.mail_owner);
  bool commands =
      trusted && (uid == 0 || uid == ::getuid() || !options_.orders_group || peer->gid == *options_.orders_group);
  std::unique_ptr<Guests::Guest> guest;
  if (!trusted) guest = guests_.enter(uid);
  if (!trusted && !guest) co_return tell_crowd(uid);
  std::vector<std::string_view> offered{ipc::queue::kName};
  if (!options_.orders_only) offered.push_back(ipc::destinations::kName);
  if (trusted) offered.push_back(ipc::enqueue::kName);
  const ipc::AllowedPeers peers{.everyone = true, .mail_owner = options_.mail_owner, .queue_owner = ::getuid()};
  auto opening =
      co_await ipc::greet(std::move(stream), peers, {.deadline = loop_.now() + ipc::kHelloWait}, std::move(offered));
  if (!opening) {
    log::warning("public/qmgr: connection of uid {} refused: {}", uid, opening.error().message());
    co_return;
  }
  // Of the mail system's account, and none of its programs.
  if (opening->stranger) {
    trusted = commands = false;
    guest = guests_.enter(uid);
    if (!guest) co_return tell_crowd(uid);
  }
  if (opening->conversation == ipc::enqueue::kName) {
    // A tool hands in what is to be on hold when it is answered.
    if (options_.orders_only) co_await queue_.recovered();
    co_await enqueue_.serve(*std::move(opening));
  } else if (opening->conversation == ipc::queue::kName) {
    Right right = right_of(opening->program, commands);
    if (!trusted) {
      // Names of users may be looked up far away.
      if (options_.rights->open_to_all())
        right = options_.rights->of(uid);
      else
        right = co_await pool_.run([rights = options_.rights, uid] { return rights->of(uid); });
    }
    co_await queue_.serve(*std::move(opening), right, guest.get());
  } else {
    co_await destination_server_.serve(*std::move(opening), guest.get(), commands);
  }
}

async::Task<void> Program::drain() {
  destination_writer_.drain();
  enqueue_.drain();
  manager_->drain();
  // The last commit needs its part of the time, after which the process is ended.
  const SteadyTime end = loop_.now() + options_.drain_time;
  const SteadyTime until = end - std::min(options_.drain_time / 4, milliseconds(1000));
  while (loop_.now() < until) {
    if (manager_->scheduler().figures().in_hand == 0 && enqueue_.leases() == 0 && enqueue_.looked_for() == 0) break;
    committed_.reset();
    (void)co_await committed_.wait({.deadline = std::min(until, loop_.now() + milliseconds(200))});
  }
  // What was acknowledged to nobody yet is, and the results of what ended just now are written: a
  // receiver without its answer would hand in its message again, a delivery without its record be
  // done again.
  enqueue_.close();
  while (loop_.now() < end) {
    log_.commits().flush();
    committed_.reset();
    writer_.kick();  // looks in the next turn whether there is something
    for (int turn = 0; turn < 2; ++turn) co_await loop_.yield();
    if (!writer_.busy() && enqueue_.unanswered() == 0) break;
    // Else it is a look for an id that has not ended.
    const SteadyTime next = writer_.busy() ? end : std::min(end, loop_.now() + milliseconds(10));
    (void)co_await committed_.wait({.deadline = next});
  }
  while (enqueue_.queued() > 0 && loop_.now() < end) (void)co_await loop_.sleep(milliseconds(1));  // the answers leave
  if (shared_) co_await shared_->leave(loop_.now() + milliseconds(200));
  // What was learned in the last seconds; a failure is no loss worth a word now.
  (void)co_await destination_writer_.write();
  // What was on its way to the disk already: the pool has one thread.
  (void)co_await pool_.run([] { return Result<void>(); });
}

std::vector<ipc::queue::StatusLine> Program::status() const {
  std::vector<ipc::queue::StatusLine> out;
  const auto add = [&](const char* name, auto value) { out.push_back({name, std::to_string(value)}); };
  const auto m = manager_->figures();
  const auto s = manager_->scheduler().figures();
  const auto l = log_.figures();
  add("active", m.active);
  add("active_bytes", m.active_bytes);
  add("bodies_bytes", m.kept_body_bytes);
  add("accepted", m.accepted);
  add("finished", m.finished);
  add("deferred", m.deferred);
  add("parked", m.parked);
  if (m.parked_by_share > 0) add("parked_by_share", m.parked_by_share);
  add("reports", m.bounced);
  add("routing", s.routing);
  add("jobs", s.jobs);
  add("jobs_in_hand", s.in_hand);
  add("jobs_done", s.jobs_done);
  add("rescheduled", s.rescheduled);
  add("connections", s.connections);
  add("connections_opened", s.connections_opened);
  add("receivers", enqueue_.receivers());
  add("commits", l.commits);
  add("commits_beside", l.commits_beside);
  add("syncs", l.syncs);
  add("log_bytes", l.appended_bytes);
  add("segments_used", l.segments_used);
  add("segments_free", l.segments_free);
  add("suffix_bytes", l.suffix_bytes);
  if (spool_ != nullptr) {
    const auto bodies = spool_->figures();
    add("spool_files", bodies.files);
    add("spool_files_free", bodies.free);
  }
  out.push_back({"accepting", manager_->accepting() ? "yes" : "no"});
  out.push_back({"recovered", recovered() ? "yes" : "no"});
  return out;
}

}  // namespace pen::qmgr
