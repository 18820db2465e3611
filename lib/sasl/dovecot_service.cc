#include "lib/sasl/dovecot_service.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/tcp_port.h"
#include "lib/base/text.h"

namespace pen::sasl {

namespace {
constexpr std::string_view kLost = "Connection lost to authentication server";
constexpr std::size_t kMaxUnixPath = 107;  // sockaddr_un
constexpr std::size_t kMaxHostName = 255;
constexpr std::size_t kMaxAddresses = 8;  // tried for one connection, within its time-out
}  // namespace

Result<async::SocketAddress> parse_service(std::string_view text, const std::string& directory) {
  const auto wrong = [&](const char* why) {
    return fail(SaslError::bad_setting, "\"" + printable(text, 100) + "\": " + why);
  };
  if (text.starts_with("inet:")) {
    const std::string_view rest = text.substr(5);
    const auto colon = rest.rfind(':');
    if (colon == std::string_view::npos) return wrong("no port; the form is inet:host:port");
    std::string host(rest.substr(0, colon));
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    if (host.empty() || iequals(host, "localhost")) host = "127.0.0.1";
    if (host.find_first_not_of("0123456789abcdefABCDEF.:") != std::string::npos)
      return wrong("the host must be a numeric address or localhost");
    const auto port = tcp_port(rest.substr(colon + 1));
    if (!port) return wrong("no such port");
    return async::SocketAddress::inet(std::move(host), *port);
  }
  if (text.starts_with("unix:")) text.remove_prefix(5);
  if (text.empty()) return wrong("no path");
  std::string path(text);
  if (path.front() != '/') path = directory + "/" + path;
  if (path.size() > kMaxUnixPath) return wrong("longer than a socket's path can be");
  return async::SocketAddress::unix(std::move(path));
}

Result<ServiceAddress> parse_named_service(std::string_view text, const std::string& directory) {
  static constexpr std::string_view kInName = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_";
  const auto colon = text.rfind(':');
  if (text.starts_with("inet:") && colon > 5 && colon <= 5 + kMaxHostName) {
    std::string host(text.substr(5, colon - 5));
    in6_addr raw{};
    const bool name = host.find_first_not_of(kInName) == std::string::npos &&
                      ::inet_pton(AF_INET, host.c_str(), &raw) != 1 && !iequals(host, "localhost");
    if (name) {
      PEN_TRY_ASSIGN(auto port, parse_service("inet:127.0.0.1" + std::string(text.substr(colon)), directory));
      return ServiceAddress{async::SocketAddress::inet({}, port.port), std::move(host)};
    }
  }
  PEN_TRY_ASSIGN(auto address, parse_service(text, directory));
  return ServiceAddress{std::move(address)};
}

std::string ServiceAddress::text() const {
  return host.empty() ? address.text() : host + ":" + std::to_string(address.port);
}

namespace {

/// Blocks. At most kMaxAddresses, as the host's resolver orders them.
Result<std::vector<async::SocketAddress>> look_up(const std::string& host, unsigned short port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &list); code != 0)
    return fail(SaslError::no_address, host + ": " + ::gai_strerror(code));
  std::vector<async::SocketAddress> out;
  for (const addrinfo* a = list; a && out.size() < kMaxAddresses; a = a->ai_next) {
    char text[NI_MAXHOST] = "";
    if (::getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      out.push_back(async::SocketAddress::inet(text, port));
  }
  ::freeaddrinfo(list);
  if (out.empty()) return fail(SaslError::no_address, host + ": no address");
  return out;
}

}  // namespace

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
  if (!peer_.address.host.empty()) names_.emplace(loop, 1);
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
  if (!names_) co_return co_await async::connect(loop_, peer_.address.address, until);
  auto found = co_await names_->run(
      [host = peer_.address.host, port = peer_.address.address.port] { return look_up(host, port); });
  if (!found) co_return fail(std::move(found).error());
  for (std::size_t i = 0;; ++i) {
    auto stream = co_await async::connect(loop_, (*found)[i], until);
    if (stream || i + 1 == found->size()) co_return stream;
  }
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
