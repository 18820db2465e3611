#pragma once
/// Checks the ARC chain of one message: what each forwarder saw, and whether the last one has sent it on unchanged. The
/// caller asks DNS: this is pure.
///
/// Use:     ArcChain chain(split_fields(header, …), now);     if (chain.empty()) …
///          chain.body(piece); …
///          for (auto& name : chain.wanted()) …               // TXT records to ask for
///          ArcOutcome outcome = chain.result(answers);
///          if (outcome.verdict == ArcVerdict::pass && … outcome.sealer … && says_dmarc_pass(outcome.seen, from)) …
/// Rules:   the newest message signature and all seals must hold. Sealing: arc_seal.h.
/// Bounds:  kMostSets; a longer chain fails. Of each seal Signature::kMaxSize. The text of a chain is read once.
/// Thread:  any, one call at a time. The text of the fields must live until result().
/// Source:  RFC 8617 sections 4.1, 4.4 and 5.2.
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"
#include "lib/trust/dkim/verify.h"

namespace pen::dkim {

enum class ArcVerdict : std::uint8_t { none, pass, fail, temperror };
std::string_view verdict_word(ArcVerdict verdict);

struct ArcOutcome {
  ArcVerdict verdict = ArcVerdict::none;
  std::string reason;     // of fail and temperror
  std::string sealer;     // d= of the newest seal
  std::string_view seen;  // what that sealer saw: the value of its ARC-Authentication-Results:
};

/// The chain of a header as one who adds a set finds it, be it whole or not.
struct ArcPlace {
  /// By instance, the first is 1: results, message signature and seal, whole fields. Empty: missing; of several the
  /// last one.
  std::vector<std::array<std::string_view, 3>> sets;
  bool closed = false;  // the newest seal says cv=fail
  std::string text;     // of all its fields, in canonical form: another one is another chain

  static ArcPlace of(const std::vector<FieldView>& fields);
  /// Why no set can be added, for the log; empty: one can.
  std::string_view obstacle(ArcVerdict verdict) const;
};

class ArcChain {
 public:
  static constexpr std::size_t kMostSets = 50;  // RFC 8617 section 4.2.1

  ArcChain(const std::vector<FieldView>& fields, WallTime now);
  /// There is no field of ARC.
  bool empty() const { return sets_.empty() && problem_.empty(); }
  void body(std::string_view piece);
  std::vector<std::string> wanted() const;
  ArcOutcome result(const std::map<std::string, KeyAnswer>& answers);

 private:
  struct Seal {
    std::string domain, selector, signature;
    std::optional<Algorithm> algorithm;
    std::string chain;  // cv=
  };
  struct Set {
    std::string_view results, message, seal;  // whole fields; empty: missing
    Seal sealed;
  };
  /// Sorts the fields into sets. Returns what is wrong with them.
  std::string arrange();
  std::string read_seals(WallTime now);
  std::string covered_by_message() const;
  /// The digest of what each seal covers: all sets before it, and its own. A long chain is read once.
  std::vector<std::string> digests_of_seals() const;

  std::vector<FieldView> fields_;
  std::vector<Set> sets_;  // by instance, the first is 1
  Signature newest_;       // the message signature of the last set
  std::string problem_;    // why the chain fails; empty: nothing found so far
  std::optional<CanonicalBody> form_;
  Sha256 digest_;
};

/// Whether the value of an ARC-Authentication-Results: field says dmarc=pass, of this domain if it names one.
bool says_dmarc_pass(std::string_view value, std::string_view from);

}  // namespace pen::dkim
