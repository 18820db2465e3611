#pragma once
/// Checks the ARC chain of one message: what each forwarder saw, and whether the last one has sent it on unchanged. The
/// caller asks DNS: this is pure.
///
/// Use:     ArcChain chain(split_fields(header, …), now);     if (chain.empty()) …
///          chain.body(piece); …
///          for (auto& name : chain.wanted()) …               // TXT records to ask for
///          ArcOutcome outcome = chain.result(answers);
///          if (outcome.verdict == ArcVerdict::pass && … outcome.sealer … && says_dmarc_pass(outcome.seen, from)) …
/// Rules:   the newest message signature and all seals must hold. Sealing is not done here.
/// Bounds:  kMostSets; a longer chain fails.
/// Thread:  any, one call at a time. The text of the fields must live until result().
/// Source:  RFC 8617 sections 4.1, 4.4 and 5.2.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"
#include "lib/dkim/verify.h"

namespace pen::dkim {

enum class ArcVerdict : std::uint8_t { none, pass, fail, temperror };
std::string_view verdict_word(ArcVerdict verdict);

struct ArcOutcome {
  ArcVerdict verdict = ArcVerdict::none;
  std::string reason;     // of fail and temperror
  std::string sealer;     // d= of the newest seal
  std::string_view seen;  // what that sealer saw: the value of its ARC-Authentication-Results:
};

class ArcChain {
 public:
  // Lists behind forwarders behind lists make three or four.
  static constexpr std::size_t kMostSets = 20;

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
  std::string covered_by_seal(std::size_t index) const;

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
