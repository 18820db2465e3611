#include "lib/net/redis/client.h"

#include <arpa/inet.h>

#include <algorithm>

#include "lib/base/text.h"
#include "lib/net/helper/reach.h"
#include "lib/net/tls/session.h"

namespace pen::redis {

using async::WaitError;

namespace {

constexpr std::size_t kReadSize = 16 * 1024;
constexpr milliseconds kPingAfter{1000};  // after this silence
// The pauses of a flapping server grow until it has stayed up for this long.
constexpr seconds kSettled{30};

bool numeric(const std::string& host) {
  unsigned char raw[16];
  return ::inet_pton(AF_INET, host.c_str(), raw) == 1 || ::inet_pton(AF_INET6, host.c_str(), raw) == 1;
}

}  // namespace

Client::Client(async::Loop& loop, ClientOptions options, ClientEvents events)
    : loop_(loop),
      options_(std::move(options)),
      events_(std::move(events)),
      random_(options_.seed),
      pool_(loop, 1),
      kept_(
          loop, {.pace = {.first = kFirstPause, .longest = kLastPause, .settled = kSettled}, .jitter = &random_},
          [this] { return session(); }, [this](const auto& end) { ended(end); }) {}

Client::~Client() = default;

bool Client::send(const std::vector<std::string>& words, Then then) {
  if (!is_up() || requests_.size() >= kMaxRequests || stream_->queued() > kMaxQueued) return false;
  write(words, std::move(then));
  return true;
}

void Client::write(const std::vector<std::string>& words, Then then) {
  stream_->write(format_command(words));
  requests_.push_back({loop_.now(), std::move(then)});
}

void Client::give_up(Error why) {
  if (!is_up() || given_up_) return;
  given_up_ = std::move(why);
  stream_->close();
}

void Client::ended(const async::Reconnecting::End& end) {
  stream_.reset();
  reader_.reset();
  for (Request& r : std::exchange(requests_, {}))
    if (r.then) r.then(fail(end.why));
  if (end.first) events_.down(end.why);
}

/// Reads the next reply while no other request is open.
async::Task<Result<Reply>> Client::one_reply(SteadyTime deadline) {
  for (;;) {
    auto next = reader_->next();
    if (!next) co_return std::unexpected(std::move(next).error());
    if (*next) co_return std::move(**next);
    auto bytes = co_await stream_->read_some(kReadSize, {.deadline = deadline});
    if (!bytes) co_return std::unexpected(std::move(bytes).error());
    reader_->feed(*bytes);
  }
}

async::Task<Result<void>> Client::encrypt() {
  tls::ConnectOptions options;
  if (!numeric(options_.tls_name)) options.server_name = options_.tls_name;
  options.names = {options_.tls_name};
  options.strict_names = true;
  auto info =
      co_await tls::connect(*stream_, options_.tls, std::move(options), {.deadline = loop_.now() + options_.timeout});
  if (!info) co_return std::unexpected(std::move(info).error());
  if (!info->matched) co_return fail(RedisError::untrusted, info->why_not);
  co_return Result<void>{};
}

async::Task<Result<std::vector<Reply>>> Client::greet() {
  std::vector<std::vector<std::string>> words;
  if (!options_.password.empty()) {
    words.push_back({"AUTH"});
    if (!options_.user.empty()) words.back().push_back(options_.user);
    words.back().push_back(options_.password);
  }
  if (options_.database != 0) words.push_back({"SELECT", std::to_string(options_.database)});
  const std::size_t own = words.size();
  words.insert(words.end(), events_.greeting.begin(), events_.greeting.end());
  words.push_back({"PING"});
  const SteadyTime deadline = loop_.now() + options_.timeout;
  for (const auto& w : words) stream_->write(format_command(w));
  std::vector<Reply> out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    auto reply = co_await one_reply(deadline);
    if (!reply) co_return std::unexpected(std::move(reply).error());
    if (reply->kind == Reply::Kind::error)
      co_return fail(RedisError::refused, words[i][0] + ": " + printable(reply->text, 200));
    if (i >= own && i + 1 < words.size()) out.push_back(*std::move(reply));
  }
  co_return out;
}

Result<void> Client::take_replies() {
  for (;;) {
    PEN_TRY_ASSIGN(auto next, reader_->next());
    if (!next) return {};
    if (requests_.empty()) return fail(RedisError::unasked);
    const Then then = std::move(requests_.front().then);
    requests_.pop_front();
    if (then) then(std::move(*next));
  }
}

async::Task<Error> Client::session() {
  given_up_.reset();
  const auto named = [this](Error e) {
    if (given_up_) e = std::exchange(given_up_, std::nullopt).value();
    if (e.is(WaitError::timed_out)) e = Error(RedisError::no_answer);
    if (e.is(WaitError::closed)) e = Error(RedisError::closed);
    return std::move(e).within(options_.server.text());
  };
  std::vector<async::SocketAddress> ways = options_.server.ways();
  if (options_.server.has_name()) {
    auto found = co_await pool_.run([server = options_.server] { return helper::look_up(server); });
    if (!found) co_return named(std::move(found).error());
    ways = *std::move(found);
  }
  auto connected = co_await helper::reach(loop_, std::move(ways), {.deadline = loop_.now() + options_.timeout});
  if (!connected) co_return named(std::move(connected).error());
  stream_.emplace(*std::move(connected));
  reader_ = std::make_unique<ReplyReader>();
  if (options_.tls) {
    if (auto encrypted = co_await encrypt(); !encrypted) co_return named(std::move(encrypted).error());
  }
  auto greeted = co_await greet();
  if (!greeted) co_return named(std::move(greeted).error());
  kept_.connected();
  events_.up(*greeted);
  const milliseconds ping_after = std::min(kPingAfter, options_.timeout);
  for (;;) {
    // A request sent while this waits for the ping's reply has a later deadline than the ping.
    const SteadyTime deadline =
        requests_.empty() ? loop_.now() + ping_after : requests_.front().sent + options_.timeout;
    auto bytes = co_await stream_->read_some(kReadSize, {.deadline = deadline});
    if (!bytes) {
      if (!bytes.error().is(WaitError::timed_out)) co_return named(std::move(bytes).error());
      if (!requests_.empty() && requests_.front().sent + options_.timeout <= loop_.now())
        co_return named(Error(RedisError::no_answer));
      if (requests_.empty()) write({"PING"}, {});
      continue;
    }
    reader_->feed(*bytes);
    if (auto taken = take_replies(); !taken) co_return named(std::move(taken).error());
  }
}

}  // namespace pen::redis
