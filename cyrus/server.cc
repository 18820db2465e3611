#include "cyrus/server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "cyrus/table_login.h"
#include "lib/base/async/sync.h"
#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/base/text.h"

namespace pen::cyrus {

using sasl::dovecot::Asked;

struct Server::Pool {
  Pool(async::Loop& loop, std::size_t count) : pool(loop, count, kMaxExchanges), threads(count) {}
  async::HandlerPool pool;
  std::size_t threads, unfinished = 0;
  std::size_t exchanges = 0;  // under way, those that are given up and still hold a place included
  SteadyTime full_since{};    // valid while unfinished >= threads; a step that ends begins it anew
};

/// An exchange under way.
struct Server::Active {
  Active(const Server& s, const Application& application, const sasl::dovecot::Application& who,
         sasl::dovecot::Request request, Pool& p)
      : login(make(application, who, std::move(request))), pool(p), done(s.loop_) {
    ++pool.exchanges;
  }
  static std::unique_ptr<Login> make(const Application& application, const sasl::dovecot::Application& who,
                                     sasl::dovecot::Request request) {
    if (application.users) return std::make_unique<TableLogin>(application.users, who, std::move(request));
    return std::make_unique<Exchange>(application, who, std::move(request));
  }
  ~Active() { --pool.exchanges; }
  std::unique_ptr<Login> login;
  Pool& pool;
  async::Event done;
  Step result;
  bool running = true;                 // a step; the first one is about to
  std::atomic<bool> given_up = false;  // read by the thread
};

struct Server::Connection {
  explicit Connection(async::Stream s) : stream(std::move(s)) {}
  async::Stream stream;
  const Application* application = nullptr;
  sasl::dovecot::Application who;
  std::map<std::uint32_t, std::shared_ptr<Active>> active;
};

Server::Server(async::Loop& loop, const Library& library, Options options, std::vector<Application> tables)
    : loop_(loop), library_(library), tables_(std::move(tables)), options_(options) {
  for (std::size_t i = 0; i < (options.threads == 1 ? 1U : 2U); ++i)
    pools_.push_back(std::make_unique<Pool>(loop, options.threads));
  challenges_ = pools_.back().get();
  const std::size_t processors = std::max(1U, std::thread::hardware_concurrency());
  if (!tables_.empty()) pools_.push_back(std::make_unique<Pool>(loop, std::min(options.threads, processors)));
}

const Application* Server::find(std::string_view name) const {
  const auto table = std::ranges::find(tables_, name, &Application::name);
  return table == tables_.end() ? library_.find(name) : &*table;
}

Server::~Server() = default;

Server::Pool& Server::pool_for(const Application& application, const std::string& mechanism) {
  if (application.users) return *pools_.back();
  const auto known =
      std::ranges::find_if(application.mechanisms, [&](const auto& m) { return iequals(m.name, mechanism); });
  const bool challenges =
      known != application.mechanisms.end() && (known->properties & sasl::property::kPlaintext) == 0;
  return challenges ? *challenges_ : *pools_.front();
}

async::Task<Result<void>> Server::hello(Connection& connection) {
  sasl::dovecot::ClientHello hello;
  const async::Until until{.deadline = loop_.now() + kHelloWait};
  for (bool done = false; !done;) {
    PEN_CO_TRY_ASSIGN(const auto line, co_await connection.stream.read_line(sasl::dovecot::kMaxLine, until));
    PEN_CO_TRY_ASSIGN(done, hello.feed(line));
  }
  connection.who = hello.take_application();
  connection.application = find(connection.who.name);
  if (connection.application == nullptr) {
    if (told_.size() < 100 && told_.insert(connection.who.name).second)
      log::warning("no smtpd service that was there at the start has smtpd_sasl_path = {}: reload",
                   printable(connection.who.name, 60));
    co_return fail(sasl::SaslError::bad_setting, "application");
  }
  std::string cookie;
  for (int i = 0; i < 2; ++i) cookie += fmt::format("{:016x}", secure_random_u64());
  connection.stream.write(
      sasl::dovecot::server_greeting(connection.application->mechanisms, static_cast<unsigned>(::getpid()), cookie));
  co_return Result<void>();
}

async::Task<void> Server::serve(std::shared_ptr<Server> self, async::Stream stream) {
  const auto connection = std::make_shared<Connection>(std::move(stream));
  Result<void> going = co_await self->hello(*connection);
  while (going) {
    auto line = co_await connection->stream.read_line(kMaxLine);
    if (!line) {
      going = std::unexpected(std::move(line).error());
      break;
    }
    going = self->take(self, connection, *line);
  }
  if (going.error().is(sasl::SaslError::bad_line) || going.error().is(async::WaitError::line_too_long))
    log::warning("a client is hung up on: {}", going.error().message());
  for (const auto& [id, active] : connection->active) {
    active->given_up = true;
    ++self->given_up_;
  }
  connection->active.clear();
  connection->stream.close();
}

Result<void> Server::take(const std::shared_ptr<Server>& self, const std::shared_ptr<Connection>& connection,
                          std::string_view line) {
  PEN_TRY_ASSIGN(auto asked, sasl::dovecot::parse_request(line));
  if (!asked) return {};
  const auto known = connection->active.find(asked->id);
  const bool there = known != connection->active.end();
  if (asked->kind == Asked::Kind::cancel) {
    if (!there) return {};  // its answer was under way
    known->second->given_up = true;
    ++given_up_;
    connection->active.erase(known);
    return {};
  }
  if (asked->kind == Asked::Kind::start) {
    if (there) return fail(sasl::SaslError::bad_line, "a number that is in use");
    Pool& pool = pool_for(*connection->application, asked->request.mechanism);
    if (pool.exchanges >= kMaxExchanges / pools_.size()) {  // each has its share: what hangs fills its own
      ++temporary_;
      connection->stream.write(sasl::dovecot::fail_line(asked->id, {}, "too many logins at once", true));
      return {};
    }
    auto active =
        std::make_shared<Active>(*this, *connection->application, connection->who, std::move(asked->request), pool);
    connection->active.emplace(asked->id, active);
    loop_.spawn("login", step(self, connection, std::move(active), std::nullopt));
    return {};
  }
  if (!there) {  // it has taken too long, and that answer was under way
    connection->stream.write(sasl::dovecot::fail_line(asked->id, {}, "no such login", true));
    return {};
  }
  if (known->second->running) return fail(sasl::SaslError::bad_line, "a response while no challenge is open");
  known->second->running = true;
  loop_.spawn("login", step(self, connection, known->second, std::move(asked->response)));
  return {};
}

/// Runs in a thread to its end, whatever becomes of the step that waits for it.
async::Task<void> Server::work(std::shared_ptr<Server> self, std::shared_ptr<Active> active,
                               std::optional<std::string> response) {
  Pool& pool = active->pool;
  if (++pool.unfinished == pool.threads) pool.full_since = self->loop_.now();
  active->result = co_await pool.pool.run([active, response = std::move(response)] {
    if (active->given_up) {
      active->login->end();
      return Step();
    }
    Step done = response ? active->login->respond(*response) : active->login->start();
    if (done.kind != Step::Kind::challenge || active->given_up) active->login->end();
    return done;
  });
  --pool.unfinished;
  pool.full_since = self->loop_.now();
  active->done.set();
}

async::Task<void> Server::step(std::shared_ptr<Server> self, std::shared_ptr<Connection> connection,
                               std::shared_ptr<Active> active, std::optional<std::string> response) {
  active->done.reset();
  self->loop_.spawn("step of a login", work(self, active, std::move(response)));
  const auto waited = co_await active->done.wait({.deadline = self->loop_.now() + self->options_.step_timeout});
  active->running = false;
  // The number may be another exchange's by now.
  const auto known = std::ranges::find_if(connection->active, [&](const auto& a) { return a.second == active; });
  if (known == connection->active.end()) co_return;
  const std::uint32_t id = known->first;
  Step done = std::move(active->result);
  if (!waited) {
    active->given_up = true;
    ++self->late_;
    done = {.kind = Step::Kind::temporary, .text = "the check of the login takes too long", .user = {}, .notes = {}};
    self->look_for_stuck(active->pool);
  }
  if (done.kind != Step::Kind::challenge) connection->active.erase(known);
  self->answer(*connection, id, done);
}

void Server::answer(Connection& connection, std::uint32_t id, const Step& step) {
  const bool troubles = step.kind == Step::Kind::temporary;
  for (const Note& note : step.notes) {
    if (note.warning || troubles)
      log::warning("SASL authentication problem: {}", note.text);
    else
      log::info("SASL authentication failure: {}", note.text);
  }
  switch (step.kind) {
    case Step::Kind::challenge:
      return connection.stream.write(sasl::dovecot::challenge_line(id, step.text));
    case Step::Kind::ok:
      ++ok_;
      return connection.stream.write(sasl::dovecot::ok_line(id, step.user));
    case Step::Kind::failed:
    case Step::Kind::temporary:
      const bool temporary = step.kind == Step::Kind::temporary;
      ++(temporary ? temporary_ : failed_);
      return connection.stream.write(sasl::dovecot::fail_line(id, step.user, step.text, temporary));
  }
}

void Server::look_for_stuck(const Pool& pool) {
  if (stuck_ || pool.unfinished < pool.threads || loop_.now() - pool.full_since < kStuck) return;
  stuck_ = true;
  log::warning("all {} threads have waited for {} s for what checks logins: the process is replaced", pool.threads,
               kStuck.count());
  if (on_stuck) on_stuck();
}

std::size_t Server::exchanges() const {
  std::size_t sum = 0;
  for (const auto& pool : pools_) sum += pool->exchanges;
  return sum;
}

std::vector<std::string> Server::status() const {
  std::size_t running = 0;
  for (const auto& pool : pools_) running += std::min(pool->unfinished, pool->threads);
  std::vector<std::string> lines{
      fmt::format("logins: {} good, {} refused, {} not possible, of them {} too late; {} given up", ok_, failed_,
                  temporary_, late_, given_up_),
      fmt::format("under way: {}, threads at work: {}", exchanges(), running)};
  const auto show = [&](const Application& application) {
    std::string names;
    for (const auto& mechanism : application.mechanisms) names += " " + mechanism.name;
    lines.push_back(fmt::format("application {}:{}", application.name, names));
  };
  std::ranges::for_each(library_.applications(), show);
  std::ranges::for_each(tables_, show);
  return lines;
}

}  // namespace pen::cyrus
