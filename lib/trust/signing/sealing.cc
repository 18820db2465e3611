#include "lib/trust/signing/sealing.h"

#include "lib/trust/dkim/arc_seal.h"

namespace pen::signing {

Result<std::shared_ptr<const Sealing>> Sealing::open(const config::Settings& s, const Clock& clock,
                                                     std::shared_ptr<RemoteKeys> elsewhere) {
  if (s.arc_seal_key.empty()) return nullptr;
  const auto out = std::make_shared<Sealing>();
  out->name_ = s.arc_seal_key;
  out->elsewhere_ = elsewhere != nullptr;
  auto keys = Signing::open_keys(s, clock, std::move(elsewhere));
  if (!keys) return fail(std::move(keys).error().within("arc_seal_key"));
  out->keys_ = *std::move(keys);
  out->form_ = dkim::sealing_form(out->keys_->form());
  return out;
}

Result<dkim::SignWith> Sealing::key() const {
  auto with = keys_->named_key(name_);
  if (!with) return fail(std::move(with).error().within("arc_seal_key"));
  return with;
}

std::string Sealing::warning() const {
  if (elsewhere_) return {};  // the key process says it
  const auto with = key();
  return with ? std::string() : with.error().message() + ": mail that is to be sealed is put off";
}

}  // namespace pen::signing
