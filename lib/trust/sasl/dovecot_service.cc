#include "lib/trust/sasl/dovecot_service.h"

#include <unistd.h>

#include <algorithm>

#include "lib/base/text.h"
#include "lib/net/helper/reach.h"

namespace pen::sasl {

namespace {
constexpr std::string_view kLost = "Connection lost to authentication server";
}  // namespace

Result<helper::ServerAddress> parse_service(std::string_view text, const std::string& directory) {
  auto at = helper::ServerAddress::parse(text, {.directory = directory, .bare = helper::ServerAddress::Bare::path});
  if (at) return *std::move(at);
  return fail(SaslError::bad_setting, "\"" + printable(text, 100) + "\": " + at.error());
}

/// One log-in. Lives with the session that holds it; the service knows it while it waits for an answer or may go on.
class DovecotService::One final : public Authenticator::Exchange {
 public:
  explicit One(DovecotService& service) : service_(service), answered_(service.loop_) {}
  ~One() override { leave(true); }

  async::Task<Answer> start(Request request, async::Until until) override {
    DovecotService& s = service_;
    until = s.bounded(until);
    if (!s.connected()) {
      s.attempted_.reset();
      s.kept_.hurry();
      (void)co_await s.attempted_.wait(until);
      if (!s.connected()) co_return temporary(s.last_error().empty() ? std::string(kLost) : s.last_error());
    }
    if (s.exchanges_.size() >= kMaxExchanges) co_return temporary("too many log-ins at once");
    do {
      if (++s.next_id_ == 0) ++s.next_id_;
    } while (s.exchanges_.contains(s.next_id_));
    id_ = s.next_id_;
    connection_ = s.kept_.connections();
    s.exchanges_.emplace(id_, this);
    co_return co_await ask(dovecot::auth_line(id_, request), until);
  }

  async::Task<Answer> respond(std::string base64, async::Until until) override {
    if (id_ == 0) co_return temporary(std::string(kLost));  // it went away while the client thought
    co_return co_await ask(dovecot::continue_line(id_, base64), service_.bounded(until));
  }

  void take(dovecot::Reply reply) {
    using Kind = dovecot::Reply::Kind;
    answer_.text = std::move(reply.text);
    answer_.user = std::move(reply.user);
    switch (reply.kind) {
      case Kind::ok:
        answer_.kind = Answer::Kind::ok;
        break;
      case Kind::challenge:
        answer_.kind = Answer::Kind::challenge;
        break;
      case Kind::fail:
        answer_.kind = reply.temporary ? Answer::Kind::temporary : Answer::Kind::failed;
        break;
    }
    answered_.set();
  }
  void lost() {
    id_ = 0;
    if (answered_.is_set()) return;  // answer and end came together: the answer counts
    answer_ = temporary(std::string(kLost));
    answered_.set();
  }

 private:
  static Answer temporary(std::string why) {
    return {.kind = Answer::Kind::temporary, .text = std::move(why), .user = {}};
  }
  async::Task<Answer> ask(std::string line, async::Until until) {
    if (line.size() > service_.peer_.max_line) {
      leave(true);
      co_return Answer{.kind = Answer::Kind::failed, .text = "the response is too long", .user = {}};
    }
    answered_.reset();
    service_.stream_->write(line);
    const auto waited = co_await answered_.wait(until);
    if (!waited) {
      leave(true);
      co_return temporary("authentication server: " + waited.error().message());
    }
    Answer answer = std::exchange(answer_, {});
    if (answer.kind != Answer::Kind::challenge) leave(false);
    co_return answer;
  }
  void leave(bool cancel) {
    if (id_ == 0) return;
    service_.exchanges_.erase(id_);
    if (cancel && service_.connected() && connection_ == service_.kept_.connections())
      service_.stream_->write(dovecot::cancel_line(id_));
    id_ = 0;
  }

  DovecotService& service_;
  async::Event answered_;
  Answer answer_;
  std::uint32_t id_ = 0;  // 0: not known to the service
  std::uint64_t connection_ = 0;
};

DovecotService::DovecotService(async::Loop& loop, Peer peer, Options options)
    : loop_(loop),
      peer_(std::move(peer)),
      options_(options),
      attempted_(loop),
      kept_(loop, {.pace = options.pace}, [this] { return session(); }, [this](const auto& end) { ended(end); }) {
  if (peer_.address.has_name()) names_.emplace(loop, 1);
}

DovecotService::~DovecotService() = default;

std::unique_ptr<Authenticator::Exchange> DovecotService::begin() { return std::make_unique<One>(*this); }

async::Task<void> DovecotService::settled(async::Until until) {
  if (mechanisms_.empty()) (void)co_await attempted_.wait(until);
}

async::Until DovecotService::bounded(async::Until until) const {
  until.deadline = std::min(until.deadline, loop_.now() + options_.answer_timeout);
  return until;
}

async::Task<Result<async::Stream>> DovecotService::connect(async::Until until) {
  if (peer_.connect) co_return co_await peer_.connect(loop_, until);
  std::vector<async::SocketAddress> ways = peer_.address.ways();
  if (names_) {
    auto found = co_await names_->run([server = peer_.address] { return helper::look_up(server); });
    if (!found) co_return fail(std::move(found).error());
    ways = *std::move(found);
  }
  co_return co_await helper::reach(loop_, std::move(ways), until);
}

async::Task<Result<std::vector<Mechanism>>> DovecotService::greet(async::Until until) {
  auto stream = co_await connect(until);
  if (!stream) co_return fail(std::move(stream).error().within(peer_.address.text()));
  stream_.emplace(std::move(*stream));
  stream_->write(dovecot::greeting(static_cast<unsigned>(::getpid())));
  if (peer_.application) stream_->write(dovecot::application_line(*peer_.application));
  dovecot::Handshake handshake;
  // A server that talks and talks is bounded by the deadline, and by what a line may hold.
  for (;;) {
    auto line = co_await stream_->read_line(peer_.max_line, until);
    if (!line) co_return fail(std::move(line).error().within(peer_.address.text()));
    auto done = handshake.feed(*line);
    if (!done) co_return fail(std::move(done).error().within(peer_.address.text()));
    if (*done) co_return handshake.take_mechanisms();
  }
}

async::Task<Error> DovecotService::serve() {
  for (;;) {
    auto line = co_await stream_->read_line(peer_.max_line);
    if (!line) co_return std::move(line).error().within(kLost);
    auto reply = dovecot::parse_reply(*line);
    if (!reply) co_return std::move(reply).error().within(kLost);
    if (*reply) take(*std::move(*reply));
  }
}

void DovecotService::take(dovecot::Reply reply) {
  const auto found = exchanges_.find(reply.id);
  if (found != exchanges_.end()) found->second->take(std::move(reply));  // else it was cancelled
}

async::Task<Error> DovecotService::session() {
  auto greeted = co_await greet({.deadline = loop_.now() + options_.connect_timeout});
  if (!greeted) co_return std::move(greeted).error();
  mechanisms_ = *std::move(greeted);
  const bool back = kept_.connected();
  attempted_.set();
  if (back && on_up) on_up();
  co_return co_await serve();
}

void DovecotService::ended(const async::Reconnecting::End& end) {
  stream_.reset();
  for (const auto& [id, exchange] : std::exchange(exchanges_, {})) exchange->lost();
  if (end.first && on_down) on_down(last_error());
  attempted_.set();
}

}  // namespace pen::sasl
