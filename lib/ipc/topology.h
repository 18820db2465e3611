#pragma once
// clang-format off
/// Who talks to whom. Each conversation is one header of this folder: its message structs and two
/// variants, one per direction. Sockets are Unix stream sockets below $queue_directory; master
/// listens, programs serve.
///
///   conversation  socket             client (connects)             server           peers allowed
///   enqueue       public/qmgr        all that take or make mail    qmgr             root, mail_owner
///   queue         public/qmgr        penqueue, pensuper, penapi, … qmgr             all; rights by uid
///   destinations  public/qmgr        pendest, penapi               qmgr             all; rights by uid
///   route         private/rewrite    qmgr                          trivial-rewrite  root, mail_owner
///   delivery      private/TRANSPORT  qmgr                          smtp, local, …   root, mail_owner
///   bounce        private/bounce     qmgr                          bounce           root, mail_owner
///   session_errors private/bounce    smtpd, smtp                   bounce           root, mail_owner
///   sessions      private/anvil      smtpd, qmgr, penstock, penapi anvil            root, mail_owner
///   clients       private/anvil      smtpd                         anvil            root, mail_owner
///   sender_memory private/anvil      smtpd                         anvil            root, mail_owner
///   tls_report    private/tlsrpt     smtp, trivial-rewrite         tlsrpt           root, mail_owner
///   verify        private/verify     smtpd, penverify              verify           root, mail_owner
///   probed        private/verify     qmgr                          verify           root, mail_owner
///
/// public/pickup has no conversation: a connection says that pendrop left a message (docs/submission.md).
/// Opening: a Hello each way (magic, conversation name, version); a server may serve several conversations on one
///          socket and chooses by the name.
/// Frames:  u32 length (LE) of what follows, varint number of descriptors that travel with the frame, varint index
///          into the variant, encoded struct (docs/ipc.md). Descriptors travel with the frame whose comment says so.
/// Numbers: one side may have many requests under way: every request carries a number of the asker's choice and the
///          answer repeats it.
/// Version: any change but an added trailing field of a message raises kVersion; both sides must match.
// clang-format on
#include <cstdint>
#include <string>
#include <string_view>

namespace pen::ipc {
inline constexpr std::uint32_t kVersion = 8;
inline constexpr std::string_view kQmgrSocket = "public/qmgr";
inline constexpr std::string_view kRewriteSocket = "private/rewrite";
inline constexpr std::string_view kBounceSocket = "private/bounce";
inline constexpr std::string_view kAnvilSocket = "private/anvil";
inline constexpr std::string_view kTlsReportSocket = "private/tlsrpt";
/// Of a service whose name is a setting (address_verify_service_name).
inline std::string service_socket(std::string_view service) { return "private/" + std::string(service); }
}  // namespace pen::ipc
