#include "lib/trust/key_client/tls.h"

namespace pen::keys {
namespace {

using ipc::keys::Scheme;
using Kind = tls::SignatureForm::Kind;

std::optional<Scheme> scheme_of(tls::SignatureForm form) {
  const auto one_of = [&](Scheme s256, Scheme s384, Scheme s512) -> std::optional<Scheme> {
    if (form.digest_bits == 256) return s256;
    if (form.digest_bits == 384) return s384;
    return form.digest_bits == 512 ? std::optional(s512) : std::nullopt;
  };
  switch (form.kind) {
    case Kind::pkcs1:
      return one_of(Scheme::rsa_pkcs1_sha256, Scheme::rsa_pkcs1_sha384, Scheme::rsa_pkcs1_sha512);
    case Kind::pss:
      return one_of(Scheme::rsa_pss_sha256, Scheme::rsa_pss_sha384, Scheme::rsa_pss_sha512);
    case Kind::ecdsa:
      return one_of(Scheme::ecdsa_sha256, Scheme::ecdsa_sha384, Scheme::ecdsa_sha512);
    case Kind::text:
      return Scheme::ed25519;
  }
  return std::nullopt;
}

class Signer final : public tls::RemoteSigner {
 public:
  Signer(std::shared_ptr<Client> client, std::string id) : client_(std::move(client)), id_(std::move(id)) {}
  std::shared_ptr<tls::PendingSignature> ask(tls::SignatureForm form, std::string data) override {
    auto pending = std::make_shared<tls::PendingSignature>();
    const auto scheme = scheme_of(form);
    if (!scheme) {
      pending->answered = true;
      return pending;
    }
    const std::weak_ptr<tls::PendingSignature> weak = pending;
    client_->sign(
        id_, *scheme, std::move(data), [weak] { return !weak.expired(); },
        [weak](const ipc::keys::Done* done) {
          const auto waiting = weak.lock();
          if (!waiting) return;
          if (done != nullptr && done->refusal == ipc::keys::Refusal::none) waiting->signature = done->data;
          waiting->settle();
        });
    return pending;
  }

 private:
  std::shared_ptr<Client> client_;
  std::string id_;
};

}  // namespace

tls::RemoteCertificate certificate(const std::shared_ptr<Client>& client, const ipc::keys::Held& held) {
  return {.certificates = held.certificates, .signer = std::make_shared<Signer>(client, held.id)};
}

std::shared_ptr<tls::PendingChain> chain_for(const std::shared_ptr<Client>& client, const std::string& maps,
                                             std::string_view name,
                                             const std::function<void(const std::string& why)>& report) {
  auto pending = std::make_shared<tls::PendingChain>();
  const std::weak_ptr<tls::PendingChain> weak = pending;
  client->find(
      maps, std::string(name), [weak] { return !weak.expired(); },
      [weak, client, report](const ipc::keys::Listed* list) {
        const auto waiting = weak.lock();
        if (!waiting) return;
        waiting->refused = list == nullptr;
        if (list != nullptr)
          for (const auto& held : list->keys) {
            if (!held.id.empty()) {
              waiting->certificates.push_back(certificate(client, held));
              continue;
            }
            waiting->refused = true;
            report(held.error);
          }
        waiting->settle();
      });
  return pending;
}

}  // namespace pen::keys
