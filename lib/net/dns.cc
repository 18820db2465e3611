#include "lib/net/dns.h"

#include <algorithm>
#include <unordered_map>

#include "lib/base/async/sync.h"
#include "lib/base/metrics/metrics.h"
#include "lib/base/text.h"
#include "lib/net/dns_cache.h"
#include "lib/net/dns_exchange.h"
#include "lib/net/dns_native.h"
#include "lib/net/dns_packet.h"

namespace pen::net {
namespace {

using async::SocketAddress;
using async::Task;
using async::Until;

// The bound on questions that wait to be sent: a host with more has trouble that waiting does not cure.
constexpr std::size_t kMaxWaitingFactor = 20;

DnsAnswer temporary(std::string name, std::string_view text) {
  DnsAnswer answer;
  answer.name = std::move(name);
  answer.text = text;
  return answer;
}

}  // namespace

std::string_view error_module(DnsError) { return "dns"; }
std::string_view describe(DnsError e) {
  switch (e) {
    case DnsError::bad_address:
      return "bad name server address";
    case DnsError::malformed:
      return "malformed reply";
    case DnsError::mismatch:
      return "reply to another question";
    case DnsError::truncated:
      return "truncated reply";
    case DnsError::bad_name:
      return "name cannot be asked for";
  }
  return "unknown";
}

struct Resolver::Impl {
  struct Pending {
    explicit Pending(async::Loop& loop) : done(loop) {}
    async::Event done;
    DnsAnswer answer;
  };

  Impl(async::Loop& l, async::HandlerPool& p, ResolverOptions o)
      : loop(l),
        pool(p),
        options(std::move(o)),
        cache(options.cache_entries, options.cache_bytes),
        places(l, std::max<std::size_t>(options.max_under_way, 1)),
        gate(std::make_unique<async::Gate>(l)) {
    if (options.servers.empty()) options.servers.push_back(SocketAddress::inet("127.0.0.1", 53));
    for (const auto& server : options.servers) sockets.push_back(std::make_unique<DnsSockets>(loop, server));
  }
  ~Impl() {
    gate.reset();
    for (auto& [key, waiting] : pending) waiting->done.set();  // with their initial answer, temporary
  }

  async::Loop& loop;
  async::HandlerPool& pool;
  ResolverOptions options;
  DnsCache cache;
  async::Semaphore places;
  std::unordered_map<std::string, std::shared_ptr<Pending>> pending;
  std::vector<std::unique_ptr<DnsSockets>> sockets;  // of each server
  std::unique_ptr<async::Gate> gate;
  Counts counts;

  void bound_ttl(DnsAnswer& answer) const {
    const seconds most = answer.outcome == DnsOutcome::found ? options.max_ttl : options.max_negative_ttl;
    answer.ttl = std::clamp(answer.ttl, seconds(0), most);
  }

  /// Asks every server in turn, for some rounds. The first usable reply wins.
  Task<Result<DnsReply>> ask(DnsQuestion question) {
    Result<DnsReply> last = fail(async::WaitError::timed_out);
    for (unsigned round = 0; round < std::max(1U, options.tries); ++round) {
      for (std::size_t i = 0; i < options.servers.size(); ++i) {
        auto reply = co_await ask_server(i, question);
        if (reply && (reply->rcode == 0 || reply->rcode == 3)) co_return reply;
        // A server's own error (SERVFAIL) says more than another server's silence.
        if (reply || !last) last = std::move(reply);
      }
    }
    co_return last;
  }
  Task<Result<DnsReply>> ask_server(std::size_t server, DnsQuestion question) {
    DnsExchange exchange{loop, options.servers[server], *sockets[server], question, options.timeout, options.dnssec};
    ++counts.sent;
    auto reply = co_await exchange.over_udp(true);
    if (reply && (reply->rcode == 1 || reply->rcode == 4)) {
      ++counts.sent;
      reply = co_await exchange.over_udp(false);  // an old server without EDNS
    }
    if (reply && reply->truncated) {
      ++counts.over_tcp;
      reply = co_await exchange.over_tcp();
      if (reply && reply->truncated) reply = fail(DnsError::truncated);
    }
    counts.refused_answers += exchange.refused;
    if (!reply && reply.error().is(async::WaitError::timed_out)) ++counts.timed_out;
    const bool answered = reply && (reply->rcode == 0 || reply->rcode == 3);
    metrics::dns_questions.add(!answered           ? metrics::Answer::failed
                               : reply->rcode == 0 ? metrics::Answer::found
                                                   : metrics::Answer::none);
    co_return reply;
  }

  /// Follows aliases across questions.
  Task<DnsAnswer> resolve(DnsQuestion question) {
    std::size_t aliases = 0;
    seconds ttl = options.max_ttl;
    bool authenticated = true;
    for (;;) {
      auto reply = co_await ask(question);
      if (!reply) {
        const bool late = reply.error().is(async::WaitError::timed_out);
        co_return temporary(question.name, late ? "Host not found, try again" : reply.error().message());
      }
      DnsReading reading = read_reply(*reply, question, aliases);
      ttl = std::min(ttl, reading.answer.ttl);
      authenticated = authenticated && reply->authenticated;
      if (reading.next.empty()) {
        reading.answer.ttl = ttl;
        reading.answer.authenticated = authenticated;
        co_return std::move(reading.answer);
      }
      question.name = std::move(reading.next);
    }
  }

  Task<void> run(std::string key, DnsQuestion question, std::shared_ptr<Pending> waiting) {
    if (auto place = co_await places.acquire({.deadline = kNever, .cancel = &gate->cancel()}); place) {
      ++counts.under_way;
      DnsAnswer answer = co_await resolve(std::move(question));
      --counts.under_way;
      places.release();
      bound_ttl(answer);
      if (answer.outcome != DnsOutcome::temporary) cache.put(key, answer, loop.now());
      waiting->answer = std::move(answer);
    }
    pending.erase(key);
    waiting->done.set();
  }
};

Resolver::Resolver(async::Loop& loop, async::HandlerPool& pool, ResolverOptions options)
    : impl_(std::make_unique<Impl>(loop, pool, std::move(options))) {}
Resolver::~Resolver() = default;

Task<DnsAnswer> Resolver::lookup(std::string name, RecordType type, Until until) {
  Impl& impl = *impl_;
  ++impl.counts.asked;
  auto normal = normal_name(name);
  if (!normal) {
    DnsAnswer answer = temporary(std::move(name), "Host not found");
    answer.outcome = DnsOutcome::no_domain;
    answer.ttl = impl.options.max_negative_ttl;
    co_return answer;
  }
  std::string key = std::to_string(static_cast<unsigned>(type)) + "/" + *normal;
  if (auto hit = impl.cache.get(key, impl.loop.now())) {
    ++impl.counts.cached;
    co_return std::move(*hit);
  }
  std::shared_ptr<Impl::Pending> waiting;
  if (const auto found = impl.pending.find(key); found != impl.pending.end()) {
    ++impl.counts.joined;
    waiting = found->second;
  } else {
    if (impl.pending.size() >= impl.options.max_under_way * kMaxWaitingFactor) {
      co_return temporary(*normal, "Too many look-ups under way");
    }
    waiting = std::make_shared<Impl::Pending>(impl.loop);
    waiting->answer = temporary(*normal, "Host not found, try again");
    impl.pending.emplace(key, waiting);
    DnsQuestion question{*normal, type};
    impl.gate->spawn("dns " + key, impl.run(key, std::move(question), waiting));
  }
  if (auto done = co_await waiting->done.wait(until); !done) {
    co_return temporary(*std::move(normal), "Host not found, try again");
  }
  co_return waiting->answer;
}

Task<DnsAnswer> Resolver::lookup_host(std::string name, RecordType type, HostLookup how, Until until) {
  const bool native_first = how == HostLookup::native || how == HostLookup::native_then_dns;
  const bool both = how == HostLookup::dns_then_native || how == HostLookup::native_then_dns;
  for (int step = 0;; ++step) {
    const bool native = native_first == (step == 0);
    DnsAnswer answer;
    if (native) {
      answer = co_await impl_->pool.run([name, type] { return lookup_native(name, type); });
    } else {
      answer = co_await lookup(name, type, until);
    }
    // A name not found by the first method may be found by the second. An error of the first must not become "not
    // found".
    if (answer.outcome == DnsOutcome::found || !both || step == 1) co_return answer;
    if (answer.outcome == DnsOutcome::temporary) {
      DnsAnswer other;
      if (native) {
        other = co_await lookup(name, type, until);
      } else {
        other = co_await impl_->pool.run([name, type] { return lookup_native(name, type); });
      }
      if (other.outcome == DnsOutcome::found) co_return other;
      co_return answer;
    }
  }
}

Task<DnsAnswer> Resolver::lookup_reverse(std::string address, Until until) {
  auto name = reverse_name(address);
  if (!name) {
    DnsAnswer answer = temporary(std::move(address), "Host not found");
    answer.outcome = DnsOutcome::no_domain;
    co_return answer;
  }
  co_return co_await lookup(*std::move(name), RecordType::ptr, until);
}

Resolver::Counts Resolver::counts() const {
  Counts counts = impl_->counts;
  for (const auto& sockets : impl_->sockets) counts.refused_answers += sockets->refused();
  counts.cache_entries = impl_->cache.entries();
  return counts;
}
void Resolver::clear_cache() { impl_->cache.clear(); }

}  // namespace pen::net
