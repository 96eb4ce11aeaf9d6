#include "troupe/apps/troupe/base/command.hpp"
#include "troupe/apps/troupe/base/exit_code.hpp"
#include "troupe/apps/troupe/base/option_parsing.hpp"
#include "troupe/net/io/exclusive_file.hpp"
#include "troupe/net/security/certificates.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>

namespace {

using namespace troupe;
namespace fs = std::filesystem;

constexpr auto cert_examples =
  "Examples:\n"
  "  troupe cert --out certificates\n"
  "  troupe cert --out certificates --name worker-1 \\\n"
  "    --hosts worker-1.example,10.0.0.2\n"
  "\n"
  "The first call creates authority.pem and authority.key, which sign the\n"
  "certificates of this and all later calls. Each process needs "
  "authority.pem,\n"
  "a NAME.pem and its NAME.key. Keep authority.key where certificates are\n"
  "created. No file is ever overwritten.\n";

/// Maximum of --days. A new certificate authority is valid for this number of
/// days.
constexpr std::uint64_t max_days = 3650;
constexpr auto authority_name = "authority";

struct cert_options {
  std::string out, name = "worker";
  std::vector<std::string> hosts{"localhost", "127.0.0.1", "::1"};
  std::uint64_t days = 365;
};

std::string certificate_name(const std::string& text) {
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_'
           || c == '.';
  };
  if (text.empty() || text.size() > 64 || text.front() == '.'
      || text.front() == '-' || !std::ranges::all_of(text, fits))
    throw std::invalid_argument("--name \"" + text
                                + "\": give at most 64 letters, digits, '-', "
                                  "'_' and '.', as in worker-1");
  if (text == authority_name)
    throw std::invalid_argument("--name authority: the authority has "
                                "this name; give another one, as in worker-1");
  return text;
}

struct files {
  fs::path certificate, key;

  files(const fs::path& folder, const std::string& name)
    : certificate{folder / (name + ".pem")}, key{folder / (name + ".key")} {}

  bool any_exists() const { return fs::exists(certificate) || fs::exists(key); }
};

std::string read_text(const fs::path& file) {
  constexpr std::size_t max_bytes = 65536;
  std::string text(max_bytes, '\0');
  std::ifstream input{file, std::ios::binary};
  input.read(text.data(), static_cast<std::streamsize>(max_bytes));
  text.resize(static_cast<std::size_t>(input.gcount()));
  if (text.empty())
    throw std::runtime_error("cannot read \"" + file.string()
                             + "\": it is missing or empty");
  return text;
}

void write(const files& target, const net::certified_key& content) {
  net::write_new_file(target.key, content.key, net::file_access::owner);
  net::write_new_file(target.certificate, content.certificate,
                      net::file_access::everyone);
}

net::certificate_options options_for(const std::string& name,
                                     std::uint64_t days) {
  net::certificate_options options;
  options.name = name;
  options.not_after =
    std::chrono::system_clock::now() + std::chrono::hours{24 * days};
  return options;
}

struct authority {
  net::certified_key key_pair;
  bool is_new;
};

/// Returns the authority in these files, or a new authority if none of the
/// files exists.
authority authority_of(const files& stored) {
  if (stored.any_exists())
    return {{read_text(stored.certificate), read_text(stored.key)}, false};
  return {net::make_authority(options_for("Troupe job authority", max_days)),
          true};
}

net::certified_key certificate_of(const cert_options& arguments,
                                  const authority& issuer,
                                  const files& issuer_files) {
  auto options = options_for(arguments.name, arguments.days);
  options.hosts = arguments.hosts;
  try {
    return net::make_certificate(issuer.key_pair, options);
  } catch (const net::invalid_authority& e) {
    throw std::runtime_error("cannot sign with \""
                             + issuer_files.certificate.string() + "\" and \""
                             + issuer_files.key.string() + "\": " + e.what());
  }
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw std::runtime_error("--out \"" + folder.string()
                             + "\": there is no such folder, and it cannot be "
                               "made: "
                             + error.message() + "; name another one");
}

int make(const cert_options& arguments) {
  const fs::path folder{arguments.out};
  const files target{folder, arguments.name};
  if (target.any_exists())
    throw std::runtime_error("\"" + target.certificate.string() + "\" or \""
                             + target.key.string()
                             + "\" is there already and is kept; give "
                               "another --name or --out");
  const files issuer_files{folder, authority_name};
  const auto issuer = authority_of(issuer_files);
  const auto certificate = certificate_of(arguments, issuer, issuer_files);
  make_folder(folder);
  if (issuer.is_new)
    write(issuer_files, issuer.key_pair);
  write(target, certificate);
  std::cout << target.certificate.string() << '\n'
            << target.key.string() << '\n';
  return ok;
}

} // namespace

void add_cert(CLI::App& tool, action& selected) {
  auto& command = *tool.add_subcommand(
    "cert", "Make certificates for tests and small clusters");
  const auto options = std::make_shared<cert_options>();
  command
    .add_option_function<std::string>(
      "--out",
      [options](const std::string& text) {
        options->out = parse_file_name("--out", text);
      },
      "FOLDER to write to, created if it is missing")
    ->type_name("FOLDER")
    ->required();
  command
    .add_option_function<std::string>(
      "--hosts",
      [options](const std::string& text) {
        options->hosts = parse_list("--hosts", text, "localhost,127.0.0.1");
      },
      "Host names and addresses in the certificate "
      "[localhost,127.0.0.1,::1]")
    ->type_name("LIST");
  command
    .add_option_function<std::string>(
      "--days",
      [options](const std::string& text) {
        options->days = parse_integer("--days", text, 1, max_days);
      },
      "Days until the certificate expires; an authority has 3650 [365]")
    ->type_name("N");
  command
    .add_option_function<std::string>(
      "--name",
      [options](const std::string& text) {
        options->name = certificate_name(text);
      },
      "Name in the certificate and of NAME.pem, NAME.key [worker]")
    ->type_name("NAME");
  command.footer(cert_examples);
  command.callback(
    [options, &selected] { selected = [options] { return make(*options); }; });
}
