#pragma once
/// For tests and the fuzz target: a real session over a socket pair, with everything around it in memory.
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>

#include "lib/receive/intake/fakes.h"
#include "lib/testing/manual_clock.h"
#include "smtpd/session.h"

namespace pen::smtpd::testing {

class TableNames final : public Names {
 public:
  std::map<std::string, NameState, std::less<>> domains;  // not listed: ok
  std::map<std::string, std::vector<std::string>> hosts;  // not listed: without addresses
  /// Of DNS lists, MX and NS: "A 2.0.0.127.list.example" and so on; "MX": data is "preference host". Not listed:
  /// there is no such name.
  std::map<std::string, std::vector<std::string>> dns;
  std::set<std::string> broken;    // names that have no answer
  std::vector<std::string> asked;  // as in dns, in order
  ClientName client_name{NameState::ok, NameState::ok, "client.example", "client.example"};
  async::Event* gate = nullptr;  // look-ups wait for it when set
  std::size_t under_way = 0, most_under_way = 0;

  async::Task<ClientName> client(std::string, async::Until) override { co_return client_name; }
  async::Task<NameState> mail_domain(std::string domain, async::Until) override {
    most_under_way = std::max(most_under_way, ++under_way);
    if (gate) (void)co_await gate->wait();
    --under_way;
    const auto found = domains.find(domain);
    co_return found == domains.end() ? NameState::ok : found->second;
  }
  async::Task<HostAddresses> addresses(std::string name, Families, async::Until) override {
    HostAddresses found{.state = NameState::ok, .addresses = hosts[name], .why = {}};
    if (found.addresses.empty()) found.state = NameState::missing;
    co_return found;
  }
  async::Task<net::DnsAnswer> records(std::string name, net::RecordType type, async::Until until) override {
    const char* word = type == net::RecordType::a    ? "A "
                       : type == net::RecordType::mx ? "MX "
                       : type == net::RecordType::ns ? "NS "
                                                     : "TXT ";
    asked.push_back(word + name);
    net::DnsAnswer out;
    out.text = "Host not found, try again";
    if (gate && !co_await gate->wait(until)) co_return out;
    if (broken.contains(name)) co_return out;
    const auto found = dns.find(word + name);
    out.outcome = found == dns.end() ? net::DnsOutcome::no_domain : net::DnsOutcome::found;
    if (found == dns.end()) co_return out;
    for (const auto& data : found->second) {
      net::DnsRecord record;
      record.type = type;
      const auto blank = type == net::RecordType::mx ? data.find(' ') : std::string::npos;
      record.preference = static_cast<std::uint16_t>(std::atoi(data.c_str()));
      record.data = blank == std::string::npos ? data : data.substr(blank + 1);
      out.records.push_back(std::move(record));
    }
    co_return out;
  }
  async::Task<NameState> host(std::string name, async::Until) override {
    const auto found = domains.find(name);
    co_return found == domains.end() ? NameState::ok : found->second;
  }
};

/// A server and one client connection to it at a time.
class Rig {
 public:
  explicit Rig(std::string main_cf = {}) {
    config::Surroundings surroundings;
    surroundings.hostname = "mx.example.org";
    const std::string base =
        "myhostname = mx.example.org\nmydestination = example.org\nmynetworks = 127.0.0.0/8\n"
        "smtpd_error_sleep_time = 0\nlocal_header_rewrite_clients =\n";
    config.emplace(config::Config::parse(
        {.directory = "/", .main_cf = base + main_cf, .master_cf = {}, .overrides = {}}, surroundings));
    resolver = std::make_shared<intake::fakes::SetResolve>();
    auto opened = Policy::open_policy(*config, resolver);
    problem = opened ? "" : opened.error().message();
    if (opened) {
      policy = *opened;
      intake.resolve = resolver;
      intake.settings.myhostname = "mx.example.org";
      intake.settings.message_size_limit = static_cast<std::uint64_t>(policy->settings.message_size_limit);
      intake.settings.hopcount_limit = static_cast<unsigned>(policy->settings.hopcount_limit);
      intake.settings.header_field_limit = static_cast<std::size_t>(policy->settings.header_field_limit);
      intake.settings.tls_required_header = policy->settings.tls_required_enable;
      intake.expansion_waits = false;
      intake.next_queue_id = [this] { return "Q" + std::to_string(++ids); };
      server.set_policy(policy);
    }
  }
  ~Rig() { hang_up(); }

  /// Opens a session from the address; returns the greeting.
  std::string connect(std::string address = "192.0.2.7", std::string_view early = {}) {
    hang_up();
    int fds[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) std::abort();
    client = fds[1];
    if (!early.empty()) send(early);
    sessions.spawn("session", Session::serve(server, async::Stream(loop, Fd(fds[0])),
                                             async::SocketAddress::inet(std::move(address), 4711), {}));
    return settle();
  }
  void send(std::string_view text) {
    while (!text.empty()) {
      const auto n = ::send(client, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) {
        if (errno != EAGAIN) return;  // the server has hung up: what was to be said is lost
        settle_into(pending_);
        continue;
      }
      text.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  /// Lets the session do all it can without waiting for time or threads, and returns what it said.
  std::string settle() {
    std::string out = std::move(pending_);
    pending_.clear();
    settle_into(out);
    return out;
  }
  /// Sends text and returns the replies.
  std::string say(std::string_view text) {
    send(text);
    return settle();
  }
  /// The same with every piece of `size` bytes settled on its own.
  std::string say_in_pieces(std::string_view text, std::size_t size) {
    std::string out;
    for (; !text.empty(); text.remove_prefix(std::min(size, text.size()))) {
      out += say(text.substr(0, size));
    }
    return out;
  }
  void hang_up() {
    if (client >= 0) ::close(client);
    client = -1;
    for (int i = 0; i < 200 && sessions.size() > 0; ++i) loop.run_once();
  }
  bool closed() { return sessions.size() == 0; }

  pen::testing::ManualClock clock;
  async::Loop loop{clock};
  async::HandlerPool pool{loop, 1};
  TableNames names;
  intake::fakes::MemoryQueue queue;
  std::shared_ptr<intake::fakes::SetResolve> resolver;
  intake::Intake intake{loop, pool, queue, nullptr, {}, {}};
  Server server{loop, pool, names, intake};
  std::optional<config::Config> config;
  std::shared_ptr<const Policy> policy;
  async::Gate sessions{loop};
  std::string problem;
  int ids = 0;
  int client = -1;

 private:
  void settle_into(std::string& out) {
    int idle = 0;
    while (idle < 4) {
      loop.run_once();
      char buffer[65536];
      const auto n = ::recv(client, buffer, sizeof buffer, 0);
      if (n > 0) {
        out.append(buffer, static_cast<std::size_t>(n));
        idle = 0;
      } else {
        ++idle;
      }
    }
  }
  std::string pending_;
};

}  // namespace pen::smtpd::testing
