#pragma once
// clang-format off
/// Which program talks to which. Each conversation is one header of this folder: its message structs and two
/// variants, one per direction. Sockets are Unix stream sockets below $queue_directory; master
/// listens, programs serve.
///
///   conversation   socket              tools                          header
///   enqueue        public/qmgr         penstock import, restore       enqueue.h
///   queue          public/qmgr         penqueue, pensuper, pencat, …  queue.h
///   destinations   public/qmgr         pendest                        destinations.h
///   route          private/rewrite                                    route.h
///   delivery       private/TRANSPORT, private/TRANSPORT#2, …          delivery.h
///   bounce         private/bounce                                     bounce.h
///   session_errors private/bounce                                     session_errors.h
///   sessions       private/anvil       penstock                       sessions.h
///   clients        private/anvil                                      clients.h
///   sender_memory  private/anvil                                      sender_memory.h
///   suppression    private/anvil                                      suppression.h
///   …_orders       private/anvil       pensuppress                    suppression.h
///   tls_report     private/tlsrpt                                     tls_report.h
///   dmarc_report   private/dmarcrpt                                   dmarc_report.h
///   verify, probed private/verify      penverify                      verify.h
///   events         private/events                                     events.h
///   logins         private/cyrus                                      logins.h
///   …_keys         private/keys                                       keys.h
///   trace          private/trace.NAME, private/TRANSPORT  pentrace    trace.h
///
/// Which programs serve each and which may open it: who_may_talk.h. Tools are root's, or users' in the first three.
///
/// public/event-stream is no conversation: penevents writes JSON lines there (docs/events.md).
/// public/pickup has no conversation: a connection says that pendrop left a message (docs/submission.md).
/// Opening: a Hello each way (magic, conversation name, version); a server may serve several conversations on one
///          socket and chooses by the name.
/// Frames:  u32 length (LE) of what follows, varint number of descriptors that travel with the frame, varint index
///          into the variant, encoded struct (docs/ipc.md). Descriptors travel with the frames whose comments say so.
/// Numbers: one side may have many requests under way: every request carries a number of the asker's choice and the
///          answer repeats it.
/// Version: both sides must have the same kVersion. A field added at the end of a message, or a message at the end of
///          a variant, raises kRevision: a program reads what is longer than it knows of peers with a later one, and
///          gives what is missing its default. Any other change raises kVersion; golden_test.cc holds the bytes of the
///          last release to this.
// clang-format on
#include <cstdint>
#include <string>
#include <string_view>

namespace pen::ipc {
inline constexpr std::uint32_t kVersion = 8;
inline constexpr std::uint32_t kRevision = 10;
inline constexpr std::string_view kQmgrSocket = "public/qmgr";
inline constexpr std::string_view kRewriteSocket = "private/rewrite";
inline constexpr std::string_view kBounceSocket = "private/bounce";
inline constexpr std::string_view kAnvilSocket = "private/anvil";
inline constexpr std::string_view kTlsReportSocket = "private/tlsrpt";
inline constexpr std::string_view kDmarcReportSocket = "private/dmarcrpt";
/// The socket of a service whose name is a setting (address_verify_service_name), or of one of its processes where each
/// has its own. process: from 1 on.
inline std::string service_socket(std::string_view service, unsigned process = 1) {
  return "private/" + std::string(service) + (process == 1 ? "" : "#" + std::to_string(process));
}
}  // namespace pen::ipc
