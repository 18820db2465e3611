#include "tools/tls_probe.h"

#include <fmt/format.h>
#include <sysexits.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>

#include "lib/base/async/handler_pool.h"
#include "lib/base/async/loop.h"
#include "lib/base/network.h"
#include "lib/base/text.h"
#include "lib/mail/client_commands.h"
#include "lib/mail/reply.h"
#include "lib/net/dns.h"
#include "lib/net/tls/session.h"
#include "lib/receive/resolve/name_servers.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

using async::Task;
using async::Until;

constexpr seconds kPatience{30};  // for one host
constexpr std::size_t kMostHosts = 20;
constexpr std::size_t kMaxLine = 2048;
constexpr int kNotTrusted = 1;

/// The conversation with one host.
class Host {
 public:
  Host(async::Loop& loop, net::Resolver& dns, const config::Settings& settings, const TlsProbe::Options& options,
       std::string name)
      : loop_(loop), dns_(dns), settings_(settings), options_(options), name_(std::move(name)) {}

  /// Prints what it finds. Returns the exit status that it asks for.
  Task<int> probe() {
    const Until until{.deadline = loop_.now() + kPatience};
    auto stream = co_await connect(until);
    if (!stream) co_return said(stream.error().message());
    const std::vector<tls::Tlsa> records = parse_ip(name_) ? std::vector<tls::Tlsa>() : co_await tlsa(until);
    if (!options_.wrapped)
      if (std::string why = co_await starttls(*stream, until); !why.empty()) co_return said(why);
    const auto context = open_context();
    if (!context) co_return said(context.error().message());
    tls::ConnectOptions how{.names = {name_}, .tlsa = records, .tlsa_base = name_};
    if (!parse_ip(name_)) how.server_name = name_;
    const auto info = co_await tls::connect(*stream, *context, how, until);
    if (!info) co_return said("the handshake failed: " + info.error().message());
    print(tls::log_line(*info, "to", shown_) + "\n");
    certificate(*info, records.empty() ? "" : " by TLSA");
    stream->write("QUIT\r\n");
    (void)co_await stream->flush(until);
    co_return info->trusted && info->matched ? EX_OK : kNotTrusted;
  }

 private:
  int said(std::string_view why) const {
    print(fmt::format("{}: {}\n", shown_.empty() ? name_ : shown_, printable(why, 500)));
    return EX_UNAVAILABLE;
  }

  Task<Result<async::Stream>> connect(Until until) {
    std::vector<std::string> addresses;
    if (parse_ip(name_)) {
      addresses.push_back(name_);
    } else {
      for (const auto type : {net::RecordType::aaaa, net::RecordType::a}) {
        const auto answer = co_await dns_.lookup_host(name_, type, net::HostLookup::dns_then_native, until);
        for (const auto& record : answer.records) addresses.push_back(record.data);
      }
    }
    Result<async::Stream> stream = fail_errno("it has no address", ENOENT);
    for (const std::string& address : addresses) {
      shown_ = fmt::format("{}[{}]:{}", name_, address, options_.port);
      stream = co_await async::connect(
          loop_, async::SocketAddress::inet(address, static_cast<unsigned short>(options_.port)), until);
      if (stream) break;
    }
    co_return stream;
  }

  /// Records that DNSSEC vouches for; others count as none.
  Task<std::vector<tls::Tlsa>> tlsa(Until until) {
    std::vector<tls::Tlsa> records;
    const auto answer =
        co_await dns_.lookup(fmt::format("_{}._tcp.{}", options_.port, name_), net::RecordType::tlsa, until);
    if (answer.outcome != net::DnsOutcome::found) co_return records;
    for (const auto& record : answer.records) {
      print(fmt::format("TLSA of {}: {}{}\n", name_, printable(record.data, 500),
                        answer.authenticated ? "" : " (without DNSSEC: does not count)"));
      if (const auto one = tls::parse_tlsa(record.data); one && answer.authenticated && tls::usable_for_smtp(*one))
        records.push_back(*one);
    }
    co_return records;
  }

  static Task<std::optional<mail::Reply>> reply(async::Stream& stream, Until until) {
    mail::ReplyParser parser;
    parser.keep_lines(true);
    for (;;) {
      const auto line = co_await stream.read_line(kMaxLine, until);
      if (!line) co_return std::nullopt;
      if (auto whole = parser.feed(*line)) co_return whole;
    }
  }

  /// Returns why there is no TLS; empty: the handshake may begin.
  Task<std::string> starttls(async::Stream& stream, Until until) {
    for (const std::string& command :
         {std::string(), "EHLO " + settings_.myhostname + "\r\n", std::string("STARTTLS\r\n")}) {
      stream.write(command);
      const auto answer = co_await reply(stream, until);
      const std::string what = command.empty() ? "the greeting" : command.substr(0, command.find_first_of(" \r"));
      if (!answer) co_return "no reply to " + what;
      if (!answer->positive()) co_return what + ": " + answer->text;
      if (command.starts_with("EHLO") && !mail::parse_offers(answer->lines, {}).starttls)
        co_return std::string("does not offer STARTTLS");
    }
    if (stream.poll_input()) co_return std::string("sends text in clear behind the reply to STARTTLS");
    co_return std::string();
  }

  Result<std::shared_ptr<const tls::Context>> open_context() const {
    tls::ContextOptions options;
    options.role = tls::Role::client;
    options.ca_file = settings_.smtp.tls_CAfile;
    options.ca_path = settings_.smtp.tls_CApath;
    options.default_ca = settings_.tls_append_default_CA || (options.ca_file.empty() && options.ca_path.empty());
    options.groups = settings_.tls_eecdh_auto_curves;
    PEN_TRY_ASSIGN(options.protocols, tls::Protocols::parse(settings_.smtp.tls_protocols));
    return tls::Context::open(std::move(options));
  }

  static void certificate(const tls::SessionInfo& info, std::string_view how) {
    if (!info.peer_certificate) return print("  no certificate\n");
    print(fmt::format("  certificate of {}, issued by {}, for {}\n", info.subject, info.issuer,
                      printable(join(info.names, " "), 1000)));
    print(fmt::format("  its fingerprint {}, that of its key {}\n", info.fingerprint, info.key_fingerprint));
    if (info.trusted && info.matched) return print(fmt::format("  trusted and of this host{}\n", how));
    print(fmt::format("  not {}: {}\n", info.trusted ? "of this host" : "trusted", printable(info.why_not, 500)));
  }

  async::Loop& loop_;
  net::Resolver& dns_;
  const config::Settings& settings_;
  const TlsProbe::Options& options_;
  std::string name_, shown_;
};

Task<void> probe_all(async::Loop& loop, net::Resolver& dns, const config::Settings& settings, TlsProbe::Options options,
                     std::vector<std::string> targets, int* status) {
  for (const std::string& target : targets) {
    std::vector<std::string> hosts;
    if (target.starts_with('[') && target.ends_with(']')) {
      hosts.push_back(target.substr(1, target.size() - 2));
    } else if (parse_ip(target)) {
      hosts.push_back(target);
    } else {
      auto answer = co_await dns.lookup(target, net::RecordType::mx, {.deadline = loop.now() + kPatience});
      std::ranges::sort(answer.records, {}, &net::DnsRecord::preference);
      for (const auto& record : answer.records) hosts.push_back(record.data);
      if (hosts.empty() && answer.outcome != net::DnsOutcome::temporary) hosts.push_back(target);
      if (hosts.empty()) {
        print(fmt::format("{}: {}\n", target, answer.text));
        *status = EX_UNAVAILABLE;
      }
    }
    if (hosts.size() > kMostHosts) hosts.resize(kMostHosts);
    for (const std::string& name : hosts) {
      Host host(loop, dns, settings, options, name);
      *status = std::max(*status, co_await host.probe());
    }
  }
  loop.stop();
}

}  // namespace

int TlsProbe::run(const std::vector<std::string>& targets) {
  auto servers = resolve::name_servers(settings_, resolve::read_resolv_conf());
  if (!servers) {
    std::fprintf(stderr, "penstock: %s\n", servers.error().message().c_str());
    return EX_CONFIG;
  }
  servers->dnssec = true;
  async::Loop loop;
  async::HandlerPool pool(loop, 1);
  net::Resolver dns(loop, pool, *std::move(servers));
  int status = EX_OK;
  loop.spawn("probe", probe_all(loop, dns, settings_, options_, targets, &status));
  loop.run();
  return status;
}

}  // namespace pen::tools
