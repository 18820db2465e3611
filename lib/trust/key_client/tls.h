#pragma once
/// The key process for handshakes: signers and certificates as lib/net/tls wants them.
///
/// Use:     options.keys_elsewhere = true;   options.remote = {certificate(client, held)};
///          options.ask_chain = [client](std::string_view name) { return chain_for(client, maps, name, report); };
/// Thread:  the loop's.
#include <memory>

#include "lib/net/tls/remote_signer.h"
#include "lib/trust/key_client/client.h"

namespace pen::keys {

tls::RemoteCertificate certificate(const std::shared_ptr<Client>& client, const ipc::keys::Held& held);
/// report: gets what the key process says is wrong with it.
std::shared_ptr<tls::PendingChain> chain_for(const std::shared_ptr<Client>& client, const std::string& maps,
                                             std::string_view name,
                                             const std::function<void(const std::string& why)>& report);

}  // namespace pen::keys
