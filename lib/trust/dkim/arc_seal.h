#pragma once
/// Seals one message with ARC: makes the set of fields that is added to its chain.
///
/// Use:     ArcSealer sealer(form, {key, "example.org", "mail"}, now);
///          sealer.header(text, results, verdict);     // the fields, CRLF lines; ArcPlace::obstacle() is empty
///          sealer.body(piece); …                      // what follows the empty line
///          std::string set = sealer.finish();         // sealer.room() bytes: whole fields, each with CRLF
///          where the key is no PrivateKey, step by step, for the seal covers the signature of the message:
///          sealer.message_digest(), sealer.seal_digest(signature of that), sealer.finish(signature of that)
/// Form:    sealing_form(): relaxed, without an end of validity, and without the fields that must not be signed.
/// Chain:   a seal of cv=none or cv=pass covers all sets, one of cv=fail its own alone (RFC 8617 section 5.1.2).
/// Thread:  any, one call at a time. finish() takes the time that the key needs.
/// Source:  RFC 8617 sections 4.1 and 5.1.
#include <optional>
#include <string>
#include <string_view>

#include "lib/trust/dkim/arc.h"
#include "lib/trust/dkim/sign.h"

namespace pen::dkim {

/// How messages are sealed, where DKIM signs these fields.
SigningForm sealing_form(const SigningForm& own);

class ArcSealer {
 public:
  /// The form must live until header().
  ArcSealer(const SigningForm& form, SignWith with, WallTime now);
  /// Once, before anything else. results: what the chain and the message were found to be, as the value of
  /// Authentication-Results: (folded, without its last CRLF). verdict: of the chain, not temperror.
  void header(std::string_view text, std::string_view results, ArcVerdict verdict);
  std::size_t room() const { return room_; }
  void body(std::string_view piece) { signer_->body(piece); }
  std::string finish();
  std::string message_digest() { return signer_->digests().front(); }
  std::string seal_digest(std::string message_signature);
  std::string finish(std::string seal_signature);
  const SigningKey& key() const { return *with_.key; }

 private:
  /// Takes in the message signature, a whole field; returns what the seal covers.
  std::string covered_by_seal(std::string message);

  const SigningForm& form_;
  SignWith with_;
  WallTime now_;
  std::optional<Signer> signer_;
  std::string results_, message_;  // whole fields, the second with its CRLF
  std::string older_;              // sets that the seal covers, in canonical form
  Seal seal_;
  std::size_t room_ = 0;
};

}  // namespace pen::dkim
