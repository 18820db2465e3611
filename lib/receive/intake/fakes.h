#pragma once
/// For tests of receivers: a queue in memory and a minimal resolver.
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "lib/mail/address.h"
#include "lib/receive/intake/queue.h"
#include "lib/receive/resolve/resolve.h"

namespace pen::intake::fakes {

/// Keeps all enqueued messages. Leased "spool files" are memfds.
class MemoryQueue final : public Queue {
 public:
  struct Stored {
    mail::Envelope envelope;
    std::string content;
    bool was_inline = true;
  };
  struct MemoryLease final : Lease {
    explicit MemoryLease(MemoryQueue& queue_in) : queue(queue_in), file(::memfd_create("lease", 0)) { ++queue.leases; }
    ~MemoryLease() override {
      ::close(file);
      --queue.leases;
    }
    int fd() const override { return file; }
    std::uint64_t content_offset() const override { return 128; }
    bool valid() const override { return true; }
    MemoryQueue& queue;
    int file;
  };

  bool accepting() const override { return is_accepting; }
  std::uint64_t inline_limit() const override { return limit; }
  async::Task<LeaseAnswer> lease(std::uint64_t expected_size, async::Until) override {
    asked.push_back(expected_size);
    LeaseAnswer answer;
    answer.outcome = lease_outcome;
    if (lease_outcome == Enqueued::ok) answer.lease = std::make_unique<MemoryLease>(*this);
    co_return answer;
  }
  async::Task<EnqueueAnswer> enqueue(mail::Envelope& envelope, Lease* lease, std::string_view body, std::uint64_t,
                                     async::Until, std::string_view) override {
    if (outcome == Enqueued::ok) {
      Stored s{envelope, std::string(body), lease == nullptr};
      if (lease) {
        // All that was written, whatever the envelope says of its size.
        s.content.resize(static_cast<std::size_t>(std::max<off_t>(::lseek(lease->fd(), 0, SEEK_END), 128)) - 128);
        const auto n = ::pread(lease->fd(), s.content.data(), s.content.size(), 128);
        s.content.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
      }
      stored.push_back(std::move(s));
    }
    co_return EnqueueAnswer{outcome, {}};
  }

  bool is_accepting = true;
  std::uint64_t limit = 16384;
  Enqueued outcome = Enqueued::ok, lease_outcome = Enqueued::ok;
  std::vector<Stored> stored;
  std::vector<std::uint64_t> asked;  // the sizes of all requested leases
  int leases = 0;
};

/// Domains and users from sets; no tables.
class SetResolve final : public resolve::Resolve {
 public:
  std::set<std::string, std::less<>> local_domains{"example.org"}, relay_domains, alias_domains, users{"user", "root"};
  std::map<std::string, std::vector<std::string>, std::less<>> aliases;
  std::map<std::string, std::string, std::less<>> gone;  // moved users, and the text for them
  std::map<std::string, std::string, std::less<>> canonical_senders;
  resolve::Route answer;  // returned by route()
  bool broken = false, blocks = false;
  std::string myorigin = "example.org";
  resolve::Options settings;  // returned by options()

  std::string rewrite(std::string_view address, std::optional<std::string_view> = std::nullopt) const override {
    if (address.empty() || mail::has_domain(address)) return std::string(address);
    if (const auto percent = address.rfind('%'); percent != std::string_view::npos)
      return std::string(address.substr(0, percent)) + "@" + std::string(address.substr(percent + 1));
    return std::string(address) + "@" + myorigin;
  }
  Result<std::string> without_route(std::string_view address) const override {
    if (broken) return fail(map::MapError::unreadable, "mydestination");
    const std::string plain = rewrite(address);
    const bool hides = plain.contains('%') && local_domains.contains(mail::domain_part(plain));
    return hides ? rewrite(mail::local_part(plain)) : plain;
  }
  Result<std::string> canonical(std::string_view address, resolve::Place place) const override {
    const auto found = canonical_senders.find(address);
    return place == resolve::Place::envelope_sender && found != canonical_senders.end() ? found->second
                                                                                        : std::string(address);
  }
  Result<resolve::Expansion> expand_virtual(std::string_view recipient) const override {
    resolve::Expansion e;
    if (broken) return fail(map::MapError::unreadable, "virtual");
    if (const auto found = aliases.find(recipient); found != aliases.end()) {
      e.addresses = found->second;
      e.changed = true;
      if (e.addresses.size() > 5) e.limit_passed = "too many";
    } else {
      e.addresses = {std::string(recipient)};
    }
    return e;
  }
  Result<resolve::AddressClass> class_of(std::string_view domain) const override {
    if (local_domains.contains(domain)) return resolve::AddressClass::local;
    if (relay_domains.contains(domain)) return resolve::AddressClass::relay;
    if (alias_domains.contains(domain)) return resolve::AddressClass::virtual_alias;
    return resolve::AddressClass::other;
  }
  Result<resolve::Route> route(std::string_view, std::string_view) const override { return answer; }
  Result<resolve::Listed> listed(std::string_view recipient, bool) const override {
    if (broken) return fail(map::MapError::unreadable, "users");
    if (gone.contains(recipient)) return resolve::Listed::moved;
    if (alias_domains.contains(mail::domain_part(recipient))) return resolve::Listed::no;
    if (!local_domains.contains(mail::domain_part(recipient))) return resolve::Listed::not_checked;
    if (aliases.contains(recipient)) return resolve::Listed::elsewhere;
    return users.contains(mail::local_part(recipient)) ? resolve::Listed::yes : resolve::Listed::no;
  }
  Result<std::optional<std::string>> moved(std::string_view recipient) const override {
    const auto found = gone.find(recipient);
    if (found == gone.end()) return std::nullopt;
    return found->second;
  }
  std::string_view unlisted_text(resolve::AddressClass) const override { return "unknown in local recipient table"; }
  bool blocking() const override { return blocks; }
  bool route_blocking() const override { return blocks; }
  bool canonical_blocking() const override { return blocks; }
  bool route_by_domain() const override { return false; }
  std::vector<Error> problems() const override { return {}; }
  const resolve::Options& options() const override { return settings; }
};

}  // namespace pen::intake::fakes
