#include "lib/suite/service/table_opener.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "lib/testing/scratch.h"

namespace pen::service {
namespace {

namespace fs = std::filesystem;

boost::test_tools::assertion_result as_root(boost::unit_test::test_unit_id) { return ::geteuid() == 0; }

struct Fixture {
  testing::ScratchDir dir;
  std::string key, cert;

  Fixture() {
    BOOST_REQUIRE(::chmod(dir.path().c_str(), 0755) == 0);
    fs::create_directory(dir.path() / "archive");
    fs::create_directory(dir.path() / "live");
    key = closed("archive/key1.pem", "key");
    cert = closed("archive/cert1.pem", "cert");
    BOOST_REQUIRE(::chmod(dir.file("archive").c_str(), 0700) == 0);
    fs::create_symlink("../archive/key1.pem", dir.path() / "live/key.pem");
  }
  std::string closed(const std::string& name, const std::string& text) const {
    const std::string path = dir.write(name, text);
    BOOST_REQUIRE(::chmod(path.c_str(), 0600) == 0);
    return path;
  }
  static config::Config config(const std::string& more, const std::string& services) {
    return config::Config::parse({.directory = "/etc/x",
                                  .main_cf = "mail_owner = daemon\nqueue_owner =\n" + more,
                                  .master_cf = services,
                                  .overrides = {}},
                                 {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
  }
  /// What a process for the program opens: the text, or errno.
  static std::string lent(const config::Config& config, const std::string& program, const std::string& path) {
    int pipe[2];
    BOOST_REQUIRE(::pipe(pipe) == 0);
    const auto accounts = owners(config.settings());
    BOOST_REQUIRE(accounts.has_value());
    const pid_t child = ::fork();
    if (child == 0) {
      const LentTables tables(config, *accounts, program);
      const auto file = tables.open(path);
      char text[100];
      const ssize_t n = file ? ::read(file->get(), text, sizeof text) : -1;
      const std::string said = n >= 0 ? std::string(text, static_cast<std::size_t>(n))
                                      : "errno " + std::to_string(file ? errno : file.error().sys_errno());
      ::_exit(::write(pipe[1], said.data(), said.size()) < 0 ? 1 : 0);
    }
    ::close(pipe[1]);
    char said[200];
    const ssize_t n = ::read(pipe[0], said, sizeof said);
    ::close(pipe[0]);
    int status = 0;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    return {said, n > 0 ? static_cast<std::size_t>(n) : 0};
  }
};

const std::string kNo = "errno " + std::to_string(EPERM), kClosed = "errno " + std::to_string(EACCES);
constexpr const char* kServices = "smtp inet n - n - - smtpd\nkeys unix - - n - - keys\n";

}  // namespace

BOOST_FIXTURE_TEST_SUITE(lent_keys, Fixture, *boost::unit_test::precondition(as_root))

BOOST_AUTO_TEST_CASE(the_files_of_keys_and_certificates_are_lent_to_the_key_process_alone) {
  const auto with =
      config("smtpd_tls_cert_file = " + cert + "\nsmtpd_tls_key_file = " + dir.file("live/key.pem") + "\n",
             std::string(kServices) +
                 "more inet n - n - - smtpd -o smtpd_tls_chain_files=" + closed("archive/chain.pem", "chain") + "\n");
  BOOST_TEST(lent(with, "keys", dir.file("live/key.pem")) == "key");
  BOOST_TEST(lent(with, "keys", cert) == "cert");
  BOOST_TEST(lent(with, "keys", dir.file("archive/chain.pem")) == "chain");
  BOOST_TEST(lent(with, "keys", key) == kNo);  // another name of the same file
  BOOST_TEST(lent(with, "keys", "/etc/shadow") == kNo);
  for (const char* program : {"smtpd", "smtp", "penapi"})
    for (const std::string& file : {dir.file("live/key.pem"), cert}) BOOST_TEST(lent(with, program, file) == kNo);
  // A place where somebody else makes names is looked at with the rights of the program.
  BOOST_REQUIRE(::chown(dir.file("live").c_str(), 2, 2) == 0);
  BOOST_TEST(lent(with, "keys", dir.file("live/key.pem")) == kClosed);
}

BOOST_AUTO_TEST_CASE(what_a_table_of_names_has_is_lent_if_root_alone_wrote_it) {
  const std::string other = closed("archive/other.pem", "other");
  const std::string text = closed("sni", "a.example " + key + ", " + cert + "\n");
  const auto with = config("tls_server_sni_maps = texthash:" + text + "\n", kServices);
  BOOST_TEST(lent(with, "keys", key) == "key");
  BOOST_TEST(lent(with, "keys", cert) == "cert");
  BOOST_TEST(lent(with, "keys", other) == kNo);
  BOOST_TEST(lent(with, "keys", text).starts_with("a.example"));
  BOOST_TEST(lent(with, "smtpd", key) == kNo);
  BOOST_TEST(lent(config("tls_server_sni_maps = inline:{ {a.example = " + other + "} }\n", kServices), "keys", other) ==
             "other");
  BOOST_REQUIRE(::chown(text.c_str(), 2, 2) == 0);
  BOOST_TEST(lent(with, "keys", key) == kNo);
}

BOOST_AUTO_TEST_CASE(a_table_with_keys_in_it_is_lent_to_a_server_only_without_a_key_process) {
  const std::string text = closed("sni", "a.example PEM\n");
  const std::string main_cf = "tls_server_sni_maps = texthash:" + text + "\n";
  BOOST_TEST(lent(config(main_cf, kServices), "smtpd", text) == kNo);
  BOOST_TEST(lent(config(main_cf, "smtp inet n - n - - smtpd\n"), "smtpd", text) == "a.example PEM\n");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::service
