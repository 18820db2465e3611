#pragma once
/// Signs one message, with several keys at once if need be: header and body are read a single time.
///
/// Use:     Signer signer(form, {{key, "example.org", "mail"}}, now);
///          signer.header(text);                       // the fields, CRLF lines
///          signer.body(piece); …                      // what follows the empty line
///          std::string fields = signer.finish();      // signer.room() bytes: whole fields, each with CRLF
///          where a key is no PrivateKey:  signer.finish(signatures of signer.digests())
/// Rules:   every instance of the named fields is signed, kMostInstances of each from the last one up; oversigned
///          names once more than there are: no further one can then be added. No l= is ever written.
/// Thread:  any, one call at a time. finish() takes the time that the keys need.
/// Source:  RFC 6376 sections 3.7, 5.4 and 5.4.2; RFC 8463.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"
#include "lib/trust/dkim/canonical.h"
#include "lib/trust/dkim/key.h"
#include "lib/trust/dkim/signature.h"

namespace pen::dkim {

/// How all messages are signed.
struct SigningForm {
  Canonicalization canonicalization;
  std::vector<std::string> fields = {"From", "Subject", "Date", "To", "Cc", "Message-ID"};
  std::vector<std::string> oversigned = {"From"};
  seconds lifetime{0};  // x=; 0: without
};

struct SignWith {
  std::shared_ptr<const SigningKey> key;
  std::string domain, selector;
  std::string identity = {};  // i=; empty: none
  std::size_t instance = 0;   // Signature::instance
};

class Signer {
 public:
  static constexpr std::size_t kMostInstances = 20;
  static constexpr std::size_t kMostFields = 1U << 18;  // as verifiers

  /// The form must live until header().
  Signer(const SigningForm& form, std::vector<SignWith> keys, WallTime now);
  Signer(SigningForm&& form, std::vector<SignWith> keys, WallTime now) = delete;
  /// Once, before anything else.
  void header(std::string_view text);
  std::size_t room() const { return room_; }
  void body(std::string_view piece) {
    body_.feed(piece, [this](std::string_view part) { digest_.update(part); });
  }
  std::string finish();
  /// SHA-256 of what each key is to sign, in the order of the keys.
  std::vector<std::string> digests();
  std::string finish(std::vector<std::string> signatures);
  const std::vector<SignWith>& keys() const { return keys_; }

 private:
  void close_body();
  std::string covered_by(const Signature& signature);

  const SigningForm& form_;
  std::vector<SignWith> keys_;
  std::vector<Signature> signatures_;  // one for each key
  std::string covered_;                // the fields in canonical form
  Form header_form_;
  CanonicalBody body_;
  Sha256 digest_;
  std::size_t room_ = 0;
  bool closed_ = false;
};

}  // namespace pen::dkim
