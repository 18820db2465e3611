#pragma once
/// Checks the signatures of one message. The caller asks DNS: this is pure.
///
/// Use:     Verifier verifier(now);
///          verifier.header(text);                     // the fields, CRLF lines
///          verifier.body(piece); …                    // what follows the empty line
///          for (auto& name : verifier.wanted()) …     // TXT records to ask for
///          auto outcomes = verifier.results(answers); // one for each signature, in the order of the message
/// Rules:   rsa-sha1 and RSA keys below 1024 bits are never accepted (RFC 8301). A signature over a part of the body
///          (l=) is policy: what follows that part could be anybody's.
/// Bounds:  the first kMostSignatures; others are not looked at.
/// Thread:  any, one call at a time.
/// Source:  RFC 6376 section 6.1; RFC 8601 section 2.7.1 (the words); RFC 8463; RFC 8301.
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"
#include "lib/trust/dkim/canonical.h"
#include "lib/trust/dkim/key.h"
#include "lib/trust/dkim/signature.h"

namespace pen::dkim {

enum class Verdict : std::uint8_t { pass, fail, policy, neutral, temperror, permerror };
std::string_view verdict_word(Verdict verdict);

/// What DNS said of a name.
struct KeyAnswer {
  enum class State : std::uint8_t { found, missing, unknown };  // unknown: no answer now
  State state = State::unknown;
  std::vector<std::string> texts = {};  // each with its strings joined
};

struct Outcome {
  Verdict verdict = Verdict::neutral;
  std::string reason;  // empty: pass
  std::string domain, identity, selector, algorithm;
  std::string tag;       // the first characters of b=, which tell signatures apart
  bool testing = false;  // the key's owner says so
};

class Verifier {
 public:
  // Nobody signs more often than a few times; each costs a DNS query and a public key operation.
  static constexpr std::size_t kMostSignatures = 10;
  static constexpr std::size_t kMostFields = 1U << 18;  // of a header; those behind are not looked at

  explicit Verifier(WallTime now) : now_(now) {}
  /// The text must live until results().
  void header(std::string_view text);
  void body(std::string_view piece);
  /// The DNS names of the keys, each once.
  std::vector<std::string> wanted() const;
  std::vector<Outcome> results(const std::map<std::string, KeyAnswer>& answers);
  /// Look-ups of fields, for tests.
  std::size_t steps() const { return index_ ? index_->steps() : 0; }

 private:
  struct Checked {
    std::string_view whole;
    Signature signature;
    Outcome outcome;
    bool decided = false;
  };
  struct BodyDigest {
    CanonicalBody form;
    Sha256 digest;
    std::string value;
  };
  void judge(Checked& checked, const KeyAnswer& answer);
  std::string covered(const Checked& checked);

  WallTime now_;
  std::vector<FieldView> fields_;
  std::optional<FieldIndex> index_;  // made for the first signature that gets so far
  std::vector<Checked> signatures_;
  std::array<std::optional<BodyDigest>, 2> bodies_;  // by Form
};

}  // namespace pen::dkim
