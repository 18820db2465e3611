#pragma once
/// The signatures of one message, or its seal, made while its content passes.
///
/// Use:     MessageSignature signature(signing, now);
///          if (signature.decide(content)) …                // the first piece, with the whole header in it: the form
///                                                          // of what is signed may still be changed, but for From:;
///                                                          // of what is sealed only that of the body
///          std::size_t room = signature.begin(content);
///          signature.more(content);  …                     // every further piece
///          auto fields = signature.finish();               // room bytes, to be put in front of the content
///          where signature.keys_elsewhere():  co_await signature.finish_elsewhere(until)
///          signature.seal(…)                                  // before decide(): mail that is not signed is sealed
/// Rules:   the From: field decides which keys sign. Mail without one, or of an address that no table names, has room
///          0 and no signature; it is sealed, if that was asked for. One that is signed is our own, and not sealed.
///          What stands against a seal is found by decide(), before anything is changed: unsealed().
/// Errors:  of finish(): a table or a key cannot be read now; too_large: the header is not whole, and its author is to
///          be signed for or has not come yet.
/// Thread:  any, one call at a time; finish() takes the time that the keys need.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/async/loop.h"
#include "lib/trust/dkim/arc_seal.h"
#include "lib/trust/signing/sealing.h"
#include "lib/trust/signing/signing.h"

namespace pen::signing {

class MessageSignature {
 public:
  // More than any mail system writes: the header is held until all of it is there.
  static constexpr std::size_t kMaxHeader = 1U << 20;
  // Of unsealed().
  static constexpr std::string_view kLongLine = "it has a line that not every host takes";

  /// signing: nullptr: the message may be sealed, but not signed.
  MessageSignature(std::shared_ptr<const Signing> signing, WallTime now) : signing_(std::move(signing)), now_(now) {}
  void seal(ToSeal how) { to_seal_.emplace(std::move(how)); }
  bool begun() const { return begun_; }
  /// Finds the keys. False: there will be no signature. whole: the header is. lines_fit: what is known of the content
  /// has no line that would be broken: what has one is not sealed, for that would break the signatures of others.
  bool decide(std::string_view content, bool whole = true, bool lines_fit = true);
  /// Decides as well, if that was not done.
  std::size_t begin(std::string_view content, bool whole = true);
  /// Whether there will be a signature or a seal, and whether it is a seal.
  bool signs() const { return signer_ || sealer_; }
  bool seals() const { return seals_; }
  /// The domain of the first signature; empty: there is none. After begin().
  const std::string& domain() const { return domain_; }
  /// Why there is no seal, though one was asked for; empty: no reason to tell.
  std::string_view unsealed() const { return unsealed_; }
  void more(std::string_view content) {
    if (signer_) signer_->body(content);
    if (sealer_) sealer_->body(content);
  }
  /// Whether finish() has something to do: there is a signature, or an error.
  bool wanted() const { return signs() || problem_; }
  Result<std::string> finish();
  /// A key is held by the key process (remote_keys.h): the loop's thread, and no time to speak of.
  bool keys_elsewhere() const;
  /// The signature must outlive it.
  async::Task<Result<std::string>> finish_elsewhere(async::Until until);

 private:
  bool decide_keys(std::string_view content, const std::vector<dkim::FieldView>& fields, bool whole);
  bool decide_seal(std::string_view content, const std::vector<dkim::FieldView>& fields, bool whole, bool lines_fit);

  std::shared_ptr<const Signing> signing_;
  WallTime now_;
  std::optional<ToSeal> to_seal_;
  bool seals_ = false;  // decided
  bool decided_ = false, begun_ = false;
  std::vector<dkim::SignWith> with_;
  std::string domain_;
  std::optional<dkim::Signer> signer_;
  std::optional<dkim::ArcSealer> sealer_;
  std::string_view unsealed_;
  std::optional<Error> problem_;
};

}  // namespace pen::signing
