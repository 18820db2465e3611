#pragma once
/// Whether a message is from the domain that it names, and what the owner of that domain asks for if it is not.
///
/// Use:     auto outcome = co_await check(records, suffixes.get(), facts, random.below(100), until);
/// Rules:   one identity that passed and belongs to the domain in From: is enough. Of several author domains the worst
///          outcome counts. A From: that cannot be read whole does not pass, and fails where it would fail without the
///          rest; of one with more domains than are looked at the others may be anybody's: reject. A domain's
///          organisation is found by the list of public suffixes or, without one, by the tree walk. Where DNS does not
///          answer, what it does say of the author's organisation tells what is at stake: who writes a message chooses
///          names below a domain whose servers are dead.
/// DNS:     at most eight names for each domain by the tree walk, two by the list; three more where a record has np=.
/// Thread:  the loop's. `records` and `suffixes` must outlive the task.
/// Source:  RFC 9989 sections 4.4, 4.8, 4.10; RFC 7489 section 6.6.4 (pct=).
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/async/loop.h"
#include "lib/net/dns.h"
#include "lib/trust/dmarc/author.h"
#include "lib/trust/dmarc/record.h"
#include "lib/trust/dmarc/suffixes.h"

namespace pen::dmarc {

/// From the best to the worst.
enum class Verdict : std::uint8_t { pass, none, permerror, temperror, fail };
std::string_view verdict_word(Verdict verdict);

using Records = std::function<async::Task<net::DnsAnswer>(std::string name, net::RecordType type, async::Until until)>;

/// A domain that SPF or DKIM says something about.
struct Identity {
  std::string domain;
  bool passed = false;
  bool unknown = false;  // it may have passed: DNS did not answer
};

struct Facts {
  Authors authors;
  std::optional<Identity> spf;  // of the MAIL FROM address
  std::vector<Identity> dkim;
  /// For reports: every identity is judged, though one is enough for the verdict.
  bool all_identities = false;
};

struct Outcome {
  Verdict verdict = Verdict::none;
  std::string from;              // the author domain that this is about; empty: there is none
  Policy policy = Policy::none;  // what its owner asks for mail that fails
  /// The same for this very message, after pct= and t=. none: but of fail, and where authors were left out.
  Policy disposition = Policy::none;
  /// Of temperror: the disposition if what DNS does not say is nothing good. The worst of all authors.
  Policy withheld = Policy::none;
  std::string reason;  // for people; may be empty

  // What is reported to the owner.
  std::optional<Record> record;                    // none: there is no policy
  std::string record_at;                           // the domain that has it
  bool dkim_aligned = false, spf_aligned = false;  // passed, and of the domain in From:
};

/// chance: 0 to 99, by which pct= decides.
async::Task<Outcome> check(const Records& records, const Suffixes* suffixes, Facts facts, unsigned chance,
                           async::Until until);

}  // namespace pen::dmarc
