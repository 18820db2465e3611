/// The whole of qmgr but its main(), over real sockets and files, with programs played by the test.
#include "qmgr/program.h"

#include <sys/mman.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "lib/base/async/testing/run.h"
#include "lib/base/log.h"
#include "lib/mail/queue_id.h"
#include "lib/queue/queue_log/posix_storage.h"
#include "lib/queue/queue_log/scan.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"
#include "qmgr/router_feed.h"

namespace pen::qmgr {
BOOST_AUTO_TEST_SUITE(program)

namespace {

using ipc::delivery::Stage;

/// A program at the other end of a socket below the scratch directory.
template <class In, class Out>
class Peer {
 public:
  using Channel = ipc::Channel<In, Out>;
  Peer(async::Loop& loop, const std::string& path) : loop_(loop) {
    auto fd = async::listen_on(async::SocketAddress::unix(path));
    BOOST_REQUIRE(fd.has_value());
    listener_ = std::make_unique<async::Listener>(loop, std::move(*fd), 10);
    loop.spawn("peer", run());
  }
  std::function<void(In&, std::vector<Fd>&)> on_message;
  std::optional<Channel> channel;
  int conversations = 0;
  bool die_after = false;  // this message is the last that the program sees
  std::function<void()> last_words = [] {};

 private:
  async::Task<void> run() {
    for (;;) {
      auto accepted = co_await listener_->accept();
      if (!accepted) co_return;
      auto opening = co_await ipc::greet(std::move(accepted->stream), {.everyone = true, .mail_owner = {}});
      if (!opening) continue;
      channel.emplace(std::move(*opening));
      ++conversations;
      for (;;) {
        auto received = co_await channel->receive();
        if (!received) break;
        on_message(received->message, received->fds);
        if (std::exchange(die_after, false)) break;
      }
      last_words();
      if (channel->is_open()) (void)co_await channel->flush();
      channel.reset();
    }
  }
  async::Loop& loop_;
  std::unique_ptr<async::Listener> listener_;
};

struct Fixture {
  testing::ScratchDir scratch;
  async::Loop loop;
  std::unique_ptr<queue_log::PosixStorage> storage;
  std::unique_ptr<queue_log::QueueLog> log;
  std::unique_ptr<spool::Spool> spool;
  std::unique_ptr<destdb::DestDb> destinations;
  Random random{5};
  std::unique_ptr<Peer<ipc::route::ToRewrite, ipc::route::FromRewrite>> rewrite;
  std::unique_ptr<Peer<ipc::delivery::ToProgram, ipc::delivery::FromProgram>> smtp;
  std::unique_ptr<Program> program;
  std::unique_ptr<async::Listener> listener;

  std::vector<std::string> delivered;  // "id address body"
  Stage die_at = Stage::handed;
  int deaths = 0;  // still to come
  unsigned char* page = nullptr;

  unsigned processes;      // of smtp that qmgr is told of; one is there
  std::size_t remembered;  // ids that the log recognises

  explicit Fixture(unsigned wanted = 1, std::size_t ids = 65536) : processes(wanted), remembered(ids) {
    std::filesystem::create_directories(scratch.path() / "private");
    std::filesystem::create_directories(scratch.path() / "public");
    rewrite =
        std::make_unique<Peer<ipc::route::ToRewrite, ipc::route::FromRewrite>>(loop, scratch.file("private/rewrite"));
    rewrite->on_message = [this](ipc::route::ToRewrite& m, std::vector<Fd>&) {
      const auto& r = std::get<ipc::route::Route>(m);
      ipc::route::Resolved resolved;
      resolved.transport = "smtp";
      resolved.recipient = r.recipient;
      resolved.nexthop = "x.example";
      ipc::Destination d;
      d.transport = "smtp";
      d.host = "mx.x.example";
      d.address = "192.0.2.1";
      d.port = 25;
      resolved.levels.push_back({{d}});
      (void)rewrite->channel->send(ipc::route::Routed{r.request, resolved});
    };
    smtp = std::make_unique<Peer<ipc::delivery::ToProgram, ipc::delivery::FromProgram>>(loop,
                                                                                        scratch.file("private/smtp"));
    smtp->on_message = [this](ipc::delivery::ToProgram& m, std::vector<Fd>& fds) { deliver(m, fds); };
    start();
  }

  void start() {
    auto opened = queue_log::PosixStorage::open(scratch.file("log"));
    BOOST_REQUIRE(opened.has_value());
    storage = std::move(*opened);
    queue_log::Options options;
    options.segment_size = 1U << 20;
    options.reserve = 1U << 16;
    options.remembered_ids = remembered;
    options.intervals = queue_log::retry_ladder(seconds(300), seconds(4000));
    auto queue = queue_log::QueueLog::open(*storage, options, loop.clock(), random);
    BOOST_REQUIRE_MESSAGE(queue.has_value(), (queue ? "" : queue.error().message()));
    log = std::move(*queue);
    auto bodies = spool::Spool::open(scratch.file("spool"));
    BOOST_REQUIRE(bodies.has_value());
    spool = std::move(*bodies);
    auto db = destdb::DestDb::open(scratch.file("destdb"), loop.clock().wall_now());
    BOOST_REQUIRE(db.has_value());
    destinations = std::move(*db);
    ProgramOptions program_options;
    program_options.limits = [](std::string_view) { return TransportLimits{}; };
    if (processes > 1) program_options.delivery_processes = {{"smtp", processes}};
    program_options.path = [this](std::string_view name) { return scratch.file(name); };
    program = std::make_unique<Program>(loop, std::move(program_options), *storage, *log, spool.get(), *destinations);
    program->start();
    auto fd = async::listen_on(async::SocketAddress::unix(scratch.file("public/qmgr")));
    BOOST_REQUIRE(fd.has_value());
    listener = std::make_unique<async::Listener>(loop, std::move(*fd), 10);
    loop.spawn("accept", accept());
    until([this] { return program->recovered(); });
  }
  async::Task<void> accept() {
    for (;;) {
      auto accepted = co_await listener->accept();
      if (!accepted) co_return;
      loop.spawn("serve", program->serve(std::move(accepted->stream)));
    }
  }
  void until(const std::function<bool()>& done) {
    for (int i = 0; i < 2000 && !done(); ++i) loop.run_once(milliseconds(10));
    BOOST_REQUIRE(done());
  }

  void deliver(ipc::delivery::ToProgram& m, std::vector<Fd>& fds) {
    if (std::holds_alternative<ipc::delivery::StagePage>(m)) {
      BOOST_REQUIRE(fds.size() == 1U);
      if (page != nullptr) ::munmap(page, 65536);
      page = static_cast<unsigned char*>(::mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0].get(), 0));
    } else if (auto* open = std::get_if<ipc::delivery::OpenConnection>(&m)) {
      ipc::delivery::Features f;
      f.window = 10;
      (void)smtp->channel->send(ipc::delivery::ConnectionOpened{open->connection, f});
    } else if (auto* close = std::get_if<ipc::delivery::CloseConnection>(&m)) {
      ipc::delivery::ConnectionClosed closed;
      closed.connection = close->connection;
      closed.opened = true;
      (void)smtp->channel->send(closed);
    } else if (auto* job = std::get_if<ipc::delivery::Job>(&m)) {
      if (deaths > 0) {
        --deaths;
        page[job->slot] = static_cast<unsigned char>(die_at);
        smtp->die_after = true;
        return;
      }
      std::string body(job->inline_body);
      if (!fds.empty()) {
        body.resize(job->body.size);
        BOOST_REQUIRE(::pread(fds[0].get(), body.data(), body.size(), static_cast<off_t>(job->body_offset)) ==
                      static_cast<ssize_t>(body.size()));
      }
      ipc::delivery::JobResult result;
      result.job = job->job;
      result.connection = job->connection;
      for (const auto& r : job->recipients) {
        delivered.push_back(job->queue_id + " " + r.recipient.address + " " + body);
        result.results.push_back({{r.ordinal}, mail::make_status(mail::Action::delivered, "2.0.0", "ok")});
      }
      (void)smtp->channel->send(result);
    }
  }

  using Receiver = ipc::Channel<ipc::enqueue::FromQmgr, ipc::enqueue::ToQmgr>;
  static async::Task<Result<Receiver>> connect(async::Loop& l, std::string path) {
    co_return co_await ipc::connect_channel<ipc::enqueue::FromQmgr, ipc::enqueue::ToQmgr>(l, path, ipc::enqueue::kName);
  }
  static mail::Envelope envelope(const std::string& id, std::size_t size) {
    mail::Envelope e;
    e.queue_id = id;
    e.arrival = system_clock().wall_now();
    e.sender = "s@x.example";
    e.recipients.push_back({.address = "r@x.example", .original = {}, .orcpt = {}, .notify = 0});
    e.body.size = size;
    return e;
  }
  /// Sends over a connection of its own; the body goes through a spool file when it is large.
  static async::Task<ipc::enqueue::Outcome> send(async::Loop& l, std::string path, std::string id, std::string body) {
    auto channel = co_await connect(l, path);
    BOOST_REQUIRE(channel.has_value());
    ipc::enqueue::Enqueue e{1, envelope(id, body.size()), 0, body};
    if (body.size() > 16384) {
      (void)channel->send(ipc::enqueue::LeaseSpool{7, body.size()});
      for (;;) {
        auto r = co_await channel->receive();
        BOOST_REQUIRE(r.has_value());
        auto* leased = std::get_if<ipc::enqueue::SpoolLeased>(&r->message);
        if (leased == nullptr) continue;
        BOOST_REQUIRE((leased->outcome == ipc::enqueue::Outcome::ok));
        BOOST_REQUIRE(r->fds.size() == 1U);
        BOOST_REQUIRE(::pwrite(r->fds[0].get(), body.data(), body.size(), static_cast<off_t>(leased->content_offset)) ==
                      static_cast<ssize_t>(body.size()));
        BOOST_REQUIRE(::fdatasync(r->fds[0].get()) == 0);
        e.lease = leased->lease;
        e.inline_body = {};
        break;
      }
    }
    (void)channel->send(e);
    for (;;) {
      auto r = co_await channel->receive();
      BOOST_REQUIRE(r.has_value());
      if (auto* done = std::get_if<ipc::enqueue::Enqueued>(&r->message)) co_return done->outcome;
    }
  }
  void send(const std::string& id, const std::string& body) {
    const auto outcome = async::testing::run(loop, send(loop, scratch.file("public/qmgr"), id, body));
    BOOST_TEST((outcome == ipc::enqueue::Outcome::ok));
  }
  std::size_t active() { return program->manager().figures().active; }
};

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(a_message_goes_from_a_receiver_to_a_delivery_program) {
  send("4bAAA", "body\r\n");
  until([this] { return delivered.size() == 1 && active() == 0; });
  BOOST_TEST(delivered[0] == "4bAAA r@x.example body\r\n");
  BOOST_TEST(program->manager().figures().finished == 1U);
}

BOOST_AUTO_TEST_CASE(a_large_body_travels_by_descriptor_and_its_file_is_used_again) {
  const std::string body(100000, 'x');
  send("4bAAA", body);
  until([this] { return delivered.size() == 1 && active() == 0; });
  BOOST_TEST((delivered[0] == "4bAAA r@x.example " + body));
  BOOST_TEST(spool->figures().used == 0U);
}

BOOST_AUTO_TEST_CASE(a_look_up_that_waited_for_its_connection_asks_what_one_does_that_did_not) {
  std::vector<std::string> asked;
  rewrite->on_message = [&asked](ipc::route::ToRewrite& m, std::vector<Fd>&) {
    asked.push_back(encode(std::get<ipc::route::Route>(m)));
  };
  RouterFeed feed(loop, scratch.file("private/rewrite"));
  feed.start(program->manager());
  const ipc::route::Route request{.request = 7,
                                  .recipient = "r@x.example",
                                  .sender = "s@x.example",
                                  .requiretls = mail::RequireTls::yes,
                                  .transport = "scan:there",
                                  .flushed = true};
  BOOST_TEST(rewrite->conversations == 0);
  feed.route(request);
  until([&] { return asked.size() == 1U; });
  BOOST_TEST(rewrite->conversations == 1);
  feed.route(request);
  until([&] { return asked.size() == 2U; });
  BOOST_TEST(asked[0] == encode(request));
  BOOST_TEST(asked[1] == encode(request));
}

BOOST_AUTO_TEST_CASE(jobs_without_effect_at_the_death_of_their_program_are_delivered_by_the_next) {
  for (const Stage stage : {Stage::handed, Stage::started}) {
    delivered.clear();
    die_at = stage;
    deaths = 1;
    send("4bAAA" + std::to_string(static_cast<int>(stage)), "body\r\n");
    until([this] { return delivered.size() == 1 && active() == 0; });
  }
  BOOST_TEST(smtp->conversations == 3);
  BOOST_TEST(program->manager().figures().deferred == 0U);
}

struct ThreeProcesses : Fixture {
  ThreeProcesses() : Fixture(3) {}
};

BOOST_FIXTURE_TEST_CASE(programs_that_are_away_stop_no_other_of_their_transport, ThreeProcesses) {
  for (int i = 0; i < 6; ++i) {
    send("4bAAA" + std::to_string(i), "body\r\n");
    until([&] { return delivered.size() == static_cast<std::size_t>(i + 1) && active() == 0; });
  }
  BOOST_TEST(program->manager().figures().deferred == 0U);
  // The one that is there ends, and comes again.
  die_at = Stage::handed;
  deaths = 1;
  send("4bBBB", "body\r\n");
  until([this] { return delivered.size() == 7 && active() == 0; });
  BOOST_TEST(smtp->conversations == 2);
}

BOOST_AUTO_TEST_CASE(a_job_in_doubt_at_the_death_of_its_program_is_deferred) {
  die_at = Stage::committed;
  deaths = 1;
  send("4bAAA", "body\r\n");
  until([this] { return program->manager().figures().deferred == 1; });
  BOOST_TEST(delivered.empty());
  BOOST_TEST(active() == 0U);
}

BOOST_AUTO_TEST_CASE(a_message_that_kills_its_program_three_times_is_held_and_others_pass) {
  die_at = Stage::started;
  deaths = 3;
  send("4bBAD", "body\r\n");
  until([this] { return deaths == 0 && active() == 0; });
  send("4bGQQD", "body\r\n");
  until([this] { return delivered.size() == 1 && active() == 0; });
  BOOST_TEST(delivered[0].starts_with("4bGQQD"));
}

BOOST_AUTO_TEST_CASE(what_programs_that_leave_did_not_begin_is_the_next_ones_however_many_leave) {
  die_at = Stage::handed;
  deaths = 5;
  smtp->last_words = [this] { (void)smtp->channel->send(ipc::delivery::leaving()); };
  send("4bAAA", "body\r\n");
  until([this] { return delivered.size() == 1 && active() == 0; });
  BOOST_TEST(smtp->conversations == 6);
  BOOST_TEST(program->manager().figures().deferred == 0U);
  BOOST_TEST(program->manager().figures().finished == 1U);
}

BOOST_AUTO_TEST_CASE(a_receiver_that_sends_nonsense_harms_nobody_else) {
  auto hostile = [](async::Loop& l, std::string path) -> async::Task<bool> {
    auto channel = co_await connect(l, path);
    BOOST_REQUIRE(channel.has_value());
    channel->stream().write(std::string("\x05\x00\x00\x00\x00\x63zzz", 9));
    for (;;) {
      auto r = co_await channel->receive({.deadline = l.now() + seconds(10)});
      if (!r) co_return r.error().is(async::WaitError::closed);
    }
  };
  BOOST_TEST(async::testing::run(loop, hostile(loop, scratch.file("public/qmgr"))));
  send("4bAAA", "body\r\n");
  until([this] { return delivered.size() == 1; });
}

/// What qmgr answers to this, from a receiver with a spool file in its hands.
static async::Task<ipc::enqueue::Outcome> ask(async::Loop& l, std::string path, mail::Envelope e, std::uint64_t permit,
                                              std::string body) {
  auto channel = co_await Fixture::connect(l, path);
  BOOST_REQUIRE(channel.has_value());
  ipc::enqueue::Enqueue request{2, std::move(e), 0, body, permit};
  if (body.empty()) (void)channel->send(ipc::enqueue::LeaseSpool{1, 0});
  for (bool sent = false;;) {
    if (!sent && (!body.empty() || request.lease != 0)) {
      (void)channel->send(request);
      sent = true;
    }
    auto r = co_await channel->receive();
    BOOST_REQUIRE(r.has_value());
    if (auto* leased = std::get_if<ipc::enqueue::SpoolLeased>(&r->message)) request.lease = leased->lease;
    if (auto* done = std::get_if<ipc::enqueue::Enqueued>(&r->message)) co_return done->outcome;
  }
}

BOOST_AUTO_TEST_CASE(a_receiver_that_says_what_it_may_not_is_refused_and_harms_nobody_else) {
  const std::string path = scratch.file("public/qmgr");
  const auto refused = ipc::enqueue::Outcome::refused;
  for (const std::string& id :
       {std::string(), std::string(5000, 'A'), std::string("A\nB"), std::string("../../x"), std::string("A\0B", 3)}) {
    BOOST_TEST((async::testing::run(loop, ask(loop, path, envelope(id, 5), 0, "body\n")) == refused));
    BOOST_TEST((async::testing::run(loop, ask(loop, path, envelope(id, 5), 0, {})) == refused));
  }
  for (const std::uint64_t size : {UINT64_MAX, UINT64_MAX - spool::kContentOffset + 1, 1UL << 40})
    BOOST_TEST((async::testing::run(loop, ask(loop, path, envelope("4bBAD", size), 0, {})) == refused));
  auto e = envelope("4bBAD", 5);
  e.discharges.push_back({"4bAAA", {0}, 0});
  for (const std::uint64_t permit : {0UL, 1UL, UINT64_MAX})
    BOOST_TEST((async::testing::run(loop, ask(loop, path, e, permit, "body\n")) == refused));
  BOOST_TEST(program->manager().figures().accepted == 0U);
  send("4bAAA", "body\r\n");
  until([this] { return delivered.size() == 1 && active() == 0; });
  BOOST_TEST(spool->figures().used == 0U);
  BOOST_TEST(spool->figures().leased == 0U);
}

struct Forgetful : Fixture {
  Forgetful() : Fixture(1, 2) {}
};

BOOST_FIXTURE_TEST_CASE(mail_under_the_id_of_a_message_that_waits_is_refused_and_that_message_stays, Forgetful) {
  using ipc::enqueue::Outcome;
  const std::string path = scratch.file("public/qmgr");
  const auto made = [&](std::int64_t ago) {
    testing::ManualClock then;
    then.step_wall(loop.clock().wall_now() - seconds(ago) - then.wall_now());
    return mail::QueueIdGenerator(then, Random(3)).next();
  };
  std::size_t others = 0;
  for (const std::string& id : {made(3600), made(0), made(-3600), std::string("4A1B2C3D")}) {
    auto waits = envelope(id, 6);
    waits.hold = true;
    BOOST_TEST((async::testing::run(loop, ask(loop, path, waits, 0, "mine\r\n")) == Outcome::ok));
    until([this] { return active() == 0; });
    for (int i = 0; i < 2; ++i) send(made(0), "later\r\n");  // and its id is forgotten
    others += 2;
    until([&] { return delivered.size() == others && active() == 0; });
    auto other = envelope(id, 8);
    other.sender = "other@x.example";
    BOOST_TEST((async::testing::run(loop, ask(loop, path, other, 0, "theirs\r\n")) == Outcome::refused));
    other.body.size = 50000;
    BOOST_TEST((async::testing::run(loop, ask(loop, path, other, 0, {})) == Outcome::refused));
    // Its receiver had no answer, and asks again.
    BOOST_TEST((async::testing::run(loop, ask(loop, path, waits, 0, "mine\r\n")) == Outcome::ok));
    const auto scan = log->find({id}, queue_log::InTransit::shown);
    std::vector<queue_log::Listed> listed;
    while (!scan->done())
      for (auto& one : *scan->step(100)) listed.push_back(std::move(one));
    BOOST_TEST_REQUIRE(listed.size() == 1U);
    BOOST_TEST(listed[0].sender == "s@x.example");
  }
  BOOST_TEST(program->manager().figures().accepted == 4U + others);
  BOOST_TEST(spool->figures().used == 0U);
  BOOST_TEST(spool->figures().leased == 0U);
  BOOST_TEST(delivered.size() == others);
}

BOOST_AUTO_TEST_CASE(a_lease_that_the_receiver_does_not_hold_is_refused) {
  auto forged = [](async::Loop& l, std::string path) -> async::Task<ipc::enqueue::Outcome> {
    auto channel = co_await connect(l, path);
    BOOST_REQUIRE(channel.has_value());
    (void)channel->send(ipc::enqueue::Enqueue{1, envelope("4bAAA", 50000), 12345, {}});
    for (;;) {
      auto r = co_await channel->receive();
      BOOST_REQUIRE(r.has_value());
      if (auto* done = std::get_if<ipc::enqueue::Enqueued>(&r->message)) co_return done->outcome;
    }
  };
  BOOST_TEST((async::testing::run(loop, forged(loop, scratch.file("public/qmgr"))) == ipc::enqueue::Outcome::refused));
}

BOOST_AUTO_TEST_CASE(what_to_do_about_a_disk_is_said_for_each_way_it_fails) {
  const auto advice = [&](const Error& why) {
    const std::string file = scratch.file("advice");
    std::filesystem::remove(file);
    log::Options to_file;
    to_file.target = log::Target::file;
    to_file.path = file;
    BOOST_REQUIRE(log::open(to_file).has_value());
    const bool given = advise_on_disk("queue_log_directory", why);
    BOOST_REQUIRE(log::open(log::Options{}).has_value());
    std::ifstream in(file);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    BOOST_TEST(given == !text.empty());
    return text;
  };
  const auto has = [](const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; };
  for (const Error& full : {Error::from_errno(ENOSPC, "write"), Error::from_errno(EDQUOT, "write"),
                            Error(queue_log::QueueLogError::no_space)}) {
    const std::string text = advice(full);
    BOOST_TEST(has(text, "disk of queue_log_directory is full"));
    BOOST_TEST(has(text, "free space there"));
    BOOST_TEST(has(text, "stays in it, and new mail is put off with 4xx"));
  }
  BOOST_TEST(has(advice(Error::from_errno(EIO, "write")), "repair or replace the disk"));
  BOOST_TEST(advice(Error::from_errno(EACCES, "open")).empty());
  BOOST_TEST(advice(Error(queue_log::QueueLogError::damaged)).empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
