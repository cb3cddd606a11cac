r"""The table of national numbers: their forms, their check digits, and the labels that people write before them.

Each `Number` has the labels of its country and English ones, as words in small letters. In a form, ``~`` is a separator
that may be there: a blank, a point, a slash or a dash. The arithmetic of check digits comes from python-stdnum, whose
modules are imported when a number of their kind is first seen.
"""

from __future__ import annotations

import importlib
import re
from functools import cache, cached_property, lru_cache
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from penstock.detection.deferred import deferred
from penstock.detection.patterns.kinds import DASH, GLUED
from penstock.detection.words import small
from penstock.engine.text_guards.views import view_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

_SEPARATOR = rf"[ \u00a0./{DASH}]?"


_SIGNS = deferred(r"[\W_]+")


class _Checks(Protocol):
    """A module of python-stdnum."""

    def is_valid(self, number: str) -> bool:
        """Return whether the check digits are right."""
        ...


class Number:
    """A kind of number.

    Attributes:
        country: the code of its country; empty for numbers of documents and devices.
        check: the module of python-stdnum that checks it; empty if nothing can be checked.
        type: the type of the finding.
        labels: the labels, each a tuple of words in small letters.
    """

    def __init__(self, country: str, check: str, form: str, labels: str, type: str = "national-id") -> None:
        self.country = country
        self.check = check
        self.type = type
        self.labels = [tuple(label.split()) for label in labels.split(",") if label.strip()]
        self._form = form

    @cached_property
    def pattern(self) -> str:
        """The form as a pattern, which ends where the number does."""
        return rf"(?:{self._form.replace('~', _SEPARATOR)})(?!{GLUED}|[-./]?\d)"

    @cached_property
    def form(self) -> re.Pattern[str]:
        """The compiled form."""
        return re.compile(self.pattern, re.IGNORECASE)

    def is_valid(self, number: str) -> bool:
        """Return whether a number has the right check digits, with or without its signs; False if it has none."""
        if not self.check:
            return False
        checks, written = _checks(self.check), number.upper()
        return checks.is_valid(written) or checks.is_valid(_SIGNS.sub("", written))


@cache
def _checks(name: str) -> _Checks:
    return cast("_Checks", importlib.import_module(f"stdnum.{name}"))


_NUMBERS: Sequence[Number] = (
    Number(
        "gb",
        "",
        r"[A-Z]{2}~\d\d~\d\d~\d\d~[A-D]?",
        "national insurance,nino,ni number,ni no,n i number,nin",
    ),
    Number("gb", "gb.nhs", r"\d{3}~\d{3}~\d{4}", "nhs,national health service"),
    Number("gb", "gb.utr", r"\d{5}~\d{5}K?", "utr,unique taxpayer,taxpayer reference"),
    Number("ie", "ie.pps", r"\d{7}~[A-W][A-IW]?", "pps,ppsn,personal public service"),
    Number(
        "de",
        "de.idnr",
        r"\d\d~\d{3}~\d{3}~\d{3}",
        "steuer id,steuerid,steuer identifikationsnummer,steueridentifikationsnummer,steuerliche identifikationsnummer"
        ",steuerident,idnr,id nr,identifikationsnummer,tin,tax identification,german tax",
    ),
    Number("de", "", r"\d{2,3}~/~\d{3,4}~/~\d{4,5}|\d{10,13}", "steuernummer,steuer nr,steuernr,st nr,stnr"),
    Number(
        "de",
        "",
        r"\d\d~\d{6}~[A-Z]~\d{3}",
        "sozialversicherungsnummer,rentenversicherungsnummer,rentenversicherung,sozialversicherung"
        ",rvnr,rv nummer,rv nr,sv nummer,svnr"
        ",sv nr,versicherungsnummer,versichertennummer,sozialvers,german social",
    ),
    Number("de", "", r"[A-Z]\d{9}", "krankenversichertennummer,kvnr,versichertennummer,krankenversicherung,egk"),
    Number(
        "de",
        "",
        r"(?=\D*\d\D*\d)[CFGHJKLMNPRTVWXYZ][CFGHJKLMNPRTVWXYZ\d]{8}\d?|T\d{8}\d?",
        "personalausweis,personalausweisnummer,ausweisnummer,ausweis nr,ausweis,perso,german id,id card",
    ),
    Number(
        "at", "at.vnr", r"\d{4}~\d{6}", "sozialversicherungsnummer,svnr,sv nummer,sv nr,versicherungsnummer,vsnr,svn"
    ),
    Number("at", "at.tin", r"\d\d~\d{3}~\d{4}", "steuernummer,abgabenkontonummer"),
    Number(
        "ch",
        "ch.ssn",
        r"756~\d{4}~\d{4}~\d\d",
        "ahv,avs,ahvn,navs,nss,oasi,ahv nummer,ahvnummer,sozialversicherungsnummer,swiss social,assurance vieillesse",
    ),
    Number(
        "fr",
        "fr.nir",
        r"[1-478]~\d\d~(?:[02-9]\d|1[0-2])~(?:\d\d|2[AB])~\d{3}~\d{3}(?:~\d\d)?",
        "sécurité sociale,securite sociale,sécu,secu,nir,insee,numéro de sécu,no ss,n ss,numéro ss,assuré social"
        ",french social",
    ),
    Number("fr", "fr.nif", r"[0-3]\d~\d\d~\d{3}~\d{3}~\d{3}", "numéro fiscal,numero fiscal,identifiant fiscal,spi,nif"),
    Number("fr", "", r"\d{12}|[A-Z\d]{9}", "carte nationale d identité,carte d identité,cni,carte nationale"),
    Number(
        "es",
        "es.dni",
        r"\d\d?\.?\d{3}\.?\d{3}~[A-Z]",
        "dni,nif,documento nacional,documento de identidad"
        ",número de identidad,identificación fiscal,carnet de identidad",
    ),
    Number("es", "es.nie", r"[XYZ]~\d{7}~[A-Z]", "nie,nif,dni,identidad de extranjero,número de extranjero,extranjero"),
    Number("es", "es.cif", r"[A-HJNP-SUVW]~\d{7}~[A-J\d]", "cif,nif"),
    Number("es", "", r"\d\d~\d{8}~\d\d", "seguridad social,nuss,naf,afiliación"),
    Number(
        "it",
        "it.codicefiscale",
        r"[A-Z]{3}~[A-Z]{3}~[\dL-V]{2}[A-EHLMPRST][\dL-V]{2}~[A-Z][\dL-V]{3}[A-Z]",
        "codice fiscale,cod fiscale,cod fisc,codfisc,cf,c f,codicefiscale,fiscal code,italian tax",
    ),
    Number("it", "it.iva", r"\d{11}", "partita iva,p iva,piva"),
    Number("it", "", r"[A-Z]{2}~\d{5}~?(?:[A-Z]{2}|\d\d)", "carta d identità,carta di identità,carta identità,cie"),
    Number(
        "pt",
        "pt.nif",
        r"\d{3}~\d{3}~\d{3}",
        "nif,contribuinte,identificação fiscal,número de contribuinte,portuguese tax",
    ),
    Number(
        "pt",
        "pt.cc",
        r"\d{8}~\d~[A-Z\d]{2}\d",
        "cartão de cidadão,cartão do cidadão,cartão cidadão,bilhete de identidade",
    ),
    Number("pt", "", r"[12]\d{10}", "niss,segurança social"),
    Number(
        "nl",
        "nl.bsn",
        r"\d{4}[. ]\d\d[. ]\d{3}|\d{3}~\d{3}~\d{3}|\d{8}",
        "bsn,burgerservicenummer,sofinummer,sofi,burgerservice,citizen service",
    ),
    Number(
        "be",
        "be.nn",
        r"\d\d~\d\d~\d\d~\d{3}~\d\d",
        "rijksregisternummer,rijksregister,insz,niss,registre national,numéro national,nationaal nummer"
        ",rrn,nrn,national register",
    ),
    Number("lu", "", r"(?:19|20)\d{11}", "matricule,numéro d identification national"),
    Number(
        "se",
        "se.personnummer",
        r"(?:\d\d)?\d{6}[-+ ]?\d{4}",
        "personnummer,personnr,pnr,samordningsnummer,personal identity,personal number,person nr,pers nr",
    ),
    Number(
        "no",
        "no.fodselsnummer",
        r"\d{6}~\d{5}",
        "fødselsnummer,fødselsnr,fodselsnummer,fnr,personnummer,d nummer,dnr,birth number,national identity",
    ),
    Number("dk", "dk.cpr", r"\d{6}~\d{4}", "cpr,cpr nummer,cprnummer,personnummer,cpr nr,civil registration"),
    Number(
        "fi",
        "fi.hetu",
        r"\d{6}[-+A-FU-Y]\d{3}[\dA-Y]",
        "henkilötunnus,henkilötunnukse*,henkilötunnuk*,hetu,sotu"
        ",personbeteckning,personal identity,identity code,henkilönumero",
    ),
    Number("is", "is_.kennitala", r"\d{6}~\d{4}", "kennitala,kennitölu,kt"),
    Number("pl", "pl.pesel", r"\d{11}", "pesel,peselu"),
    Number("pl", "pl.nip", r"\d{3}~\d{3}~\d\d~\d\d|\d{3}~\d\d~\d\d~\d{3}", "nip,identyfikacji podatkowej"),
    Number("pl", "", r"[A-Z]{3}~\d{6}", "dowód osobisty,dowodu osobistego,dowód,nr dowodu,numer dowodu"),
    Number("cz", "cz.rc", r"\d{6}~/?~\d{3,4}", "rodné číslo,rodného čísla,rodne cislo,rč,r č,birth number"),
    Number("sk", "cz.rc", r"\d{6}~/?~\d{3,4}", "rodné číslo"),
    Number("hu", "", r"8\d{9}", "adóazonosító,adóazonosító jel,adóazonosító jele*"),
    Number("hu", "", r"\d{3}~\d{3}~\d{3}", "taj,taj szám,tajszám"),
    Number("ro", "ro.cnp", r"[1-9]\d{12}", "cnp,cod numeric personal,codul numeric personal,numeric personal"),
    Number("bg", "bg.egn", r"\d{10}", "егн,единен граждански,egn"),
    Number("gr", "gr.amka", r"\d{11}", "αμκα,α μ κ α,amka"),
    Number("gr", "gr.vat", r"\d{9}", "αφμ,α φ μ,afm"),
    Number("hr", "hr.oib", r"\d{11}", "oib"),
    Number("si", "", r"\d{13}", "emšo,emso"),
    Number("rs", "", r"\d{13}", "jmbg,јмбг"),
    Number("ee", "ee.ik", r"[1-8]\d{10}", "isikukood,isikukoodi*"),
    Number("lt", "lt.asmens", r"[1-6]\d{10}", "asmens kodas,asmens kodo"),
    Number("lv", "", r"\d{6}~\d{5}", "personas kods,personas kodu"),
    Number("ru", "ru.inn", r"\d{12}|\d{10}", "инн"),
    Number("ru", "", r"\d{3}~\d{3}~\d{3}~\d\d", "снилс"),
    Number("ua", "ua.rntrc", r"\d{10}", "рнокпп,іпн"),
    Number(
        "tr",
        "tr.tckimlik",
        r"[1-9]\d{2}~?\d{3}~?\d{3}~?\d{2}",
        "tckn,kimlik,tc kimlik,t c kimlik,tc no,t c no,tc numara*,kimlik numara*,kimliğ*,turkish identity,turkish id",
    ),
    Number("br", "br.cpf", r"\d{3}~\d{3}~\d{3}~\d\d", "cpf,pessoa física,pessoas físicas"),
    Number("br", "br.cnpj", r"[\dA-Z]{2}~[\dA-Z]{3}~[\dA-Z]{3}~[\dA-Z]{4}~\d\d", "cnpj,pessoa jurídica"),
    Number("br", "", r"\d{1,2}~\d{3}~\d{3}~[\dX]", "rg,registro geral"),
    Number("br", "", r"\d{3}~\d{5}~\d\d~\d", "pis,pasep,nis,pis pasep,nit"),
    Number("mx", "mx.curp", r"[A-Z]{4}\d{6}[HMX][A-Z]{5}[A-Z\d]\d", "curp,registro de población,clave única"),
    Number("mx", "mx.rfc", r"[A-ZÑ&]{3,4}~\d{6}~[A-Z\d]{3}", "rfc,r f c,registro federal"),
    Number("mx", "", r"\d{11}|\d\d~\d\d~\d\d~\d{4}~\d", "nss,seguridad social,seguro social,imss"),
    Number("ar", "ar.cuit", r"\d\d~\d{8}~\d", "cuit,cuil"),
    Number("ar", "", r"\d{1,2}~\d{3}~\d{3}", "dni,documento nacional,documento"),
    Number("cl", "cl.rut", r"\d{1,2}~\d{3}~\d{3}~[\dK]", "rut,run,rol único"),
    Number("co", "", r"\d{1,3}(?:~\d{3}){2,3}|\d{6,10}", "cédula,cedula,cédula de ciudadanía,cédula de identidad,nuip"),
    Number("co", "co.nit", r"\d{3}~\d{3}~\d{3}~\d", "nit"),
    Number("pe", "", r"\d{8}(?:~\d)?", "dni"),
    Number("ec", "ec.ci", r"\d{9}~\d", "cédula,cedula,cédula de identidad"),
    Number("in", "in_.aadhaar", r"[2-9]\d{3}~\d{4}~\d{4}", "aadhaar,aadhar,adhaar,adhar,uidai,आधार,uid"),
    Number("in", "in_.pan", r"[A-Z]{5}\d{4}[A-Z]", "pan,pancard,permanent account,पैन"),
    Number("in", "", r"[A-Z]{3}~\d{7}", "epic,voter id,voter card,voter,voterid"),
    Number("pk", "pk.cnic", r"\d{5}~\d{7}~\d", "cnic,nadra,nicop"),
    Number("id", "id.nik", r"\d{16}|\d{6}~\d{6}~\d{4}", "nik,ktp,induk kependudukan"),
    Number("id", "", r"\d\d\.?\d{3}\.?\d{3}\.?\d-?\d{3}\.?\d{3}", "npwp"),
    Number("my", "my.nric", r"\d{6}~\d\d~\d{4}", "nric,mykad,kad pengenalan,ic number,ic no,no ic"),
    Number("sg", "", r"[STFGM]\d{7}[A-Z]", "nric,fin,nric fin"),
    Number("th", "th.pin", r"\d~\d{4}~\d{5}~\d\d~\d", "thai id,thai national,บัตรประชาชน,เลขประจำตัวประชาชน"),
    Number(
        "vn", "", r"\d{12}|\d{9}|\d{3}~\d{3}~\d{3}~\d{3}", "cccd,cmnd,căn cước,căn cước công dân,chứng minh nhân dân"
    ),
    Number(
        "ph",
        "",
        r"\d{4}~\d{4}~\d{4}(?:~\d{4})?|\d\d~\d{7}~\d|\d{3}~\d{3}~\d{3}(?:~\d{3})?",
        "philsys,philhealth,sss,umid,tin",
    ),
    Number(
        "cn",
        "cn.ric",
        r"\d{6}~\d{8}~\d{3}[\dX]",
        "身份证,公民身份,身份證號,resident identity,resident id,id card,shenfenzheng",
    ),
    Number("tw", "", r"[A-Z][1289]\d{8}", "身分證,身份證,統一編號,id card"),
    Number("hk", "", r"[A-Z]{1,2}\d{6}\(?[\dA]\)?", "hkid,香港身份證,身份證,hong kong identity,identity card,id card"),
    Number("jp", "jp.in_", r"\d{4}~\d{4}~\d{4}", "マイナンバー,個人番号,my number,mynumber,individual number"),
    Number("kr", "kr.rrn", r"\d{6}~\d{7}", "주민등록번호,주민번호,주민등록,rrn,resident registration"),
    Number("il", "il.idnr", r"\d{8}~?\d", "תעודת זהות,ת ז,תז,teudat zehut,zehut"),
    Number("ae", "", r"784~\d{4}~\d{7}~\d", "emirates id,eid,الهوية الإماراتية,الهوية"),
    Number("sa", "", r"[12]\d{9}", "iqama,هوية,الهوية الوطنية,رقم الهوية,الإقامة"),
    Number("eg", "", r"[23]\d{13}", "الرقم القومي,رقم قومي,egyptian national"),
    Number("ir", "", r"\d{10}|\d{3}~\d{6}~\d", "کد ملی,شماره ملی"),
    Number("za", "za.idnr", r"\d{6}~\d{4}~\d{2}~\d|\d{13}", "south african id,sa id,rsa id,id number,identity number"),
    Number("ng", "", r"\d{11}|\d{4}~\d{3}~\d{4}", "nin,bvn,national identification"),
    Number("ke", "", r"A\d{9}[A-Z]", "kra pin,kra"),
    Number("au", "au.tfn", r"\d{3}~\d{3}~\d{2,3}", "tfn,tax file"),
    Number("au", "", r"[2-6]\d{3}~\d{5}~\d(?:~\d)?", "medicare,medicare card"),
    Number("au", "au.abn", r"\d\d~\d{3}~\d{3}~\d{3}", "abn,australian business"),
    Number("nz", "nz.ird", r"\d{2,3}~\d{3}~\d{3}", "ird,inland revenue"),
    Number("nz", "", r"[A-Z]{3}\d{4}|[A-Z]{3}\d\d[A-Z]\d", "nhi"),
    Number("ca", "ca.sin", r"\d{3}~\d{3}~\d{3}", "sin,s i n,social insurance,nas,assurance sociale"),
    Number("ca", "", r"\d{4}~\d{3}~\d{3}(?:~[A-Z]{1,2})?", "ohip,health card,carte santé,assurance maladie,ramq"),
    Number("ca", "", r"[A-Z]{4}~\d{4}~\d{4}", "ramq,assurance maladie,carte soleil"),
    Number("us", "", r"[1-9][A-Z][A-Z\d]\d-?[A-Z][A-Z\d]\d-?[A-Z]{2}\d\d", "medicare,medicare beneficiary,mbi"),
    Number("us", "", r"9\d\d~\d\d~\d{4}", "itin,individual taxpayer"),
    Number("us", "us.ein", r"\d\d-\d{7}", "ein,employer identification,tin"),
    Number("us", "us.ssn", r"\d{3}~\d\d~\d{4}", "social security,social,ssn,tin,tax id"),
    # Documents and things. Their forms differ from state to state, so the label alone counts.
    Number(
        "",
        "",
        r"[A-Z]{1,3}~\d{5,9}|\d{8,9}|\d\d~\d\d~\d{6}|[A-Z\d](?=[A-Z\d]*\d[A-Z\d]*\d)[A-Z\d]{7,9}"
        r"|\d\d[A-Z]{2}\d{5}",
        "passport,passports,reisepass,reisepassnummer,passnummer,pass nr,passeport,pasaporte,passaporto,passaporte"
        ",paspoort,paspoortnummer,paszport,paszportu,passnummer,passi,pas nr,pasnummer,pasaport,paspor,hộ chiếu"
        ",паспорт,паспорта,паспорту,διαβατήριο,διαβατηρίου,פספורט,דרכון,جواز,جواز السفر,گذرنامه,पासपोर्ट"
        ",护照,護照,パスポート,旅券,여권,หนังสือเดินทาง",
    ),
    Number(
        "",
        "",
        r"[A-Z9]{5}~\d{6}~[A-Z9]{2}~\d?[A-Z]{2}(?:~\d\d)?|(?=(?:[A-Z ./-]*\d){5})"
        r"[A-Z\d]{1,17}(?:[ ./-]\d[A-Z\d]{0,5}){0,4}(?:[ -][A-Z]{1,3})?",
        "driver license,drivers license,driver s license,driving license,driver licence,drivers licence"
        ",driver s licence,driving licence,dl,dl number,dl no,dln,driver lic,license number,licence number"
        ",führerschein,führerscheinnummer,führerschein nr,fahrerlaubnis,permis de conduire"
        ",permiso de conducir,carnet de conducir"
        ",licencia de conducir,licencia de conducción,patente di guida,patente,carta de condução,cnh,habilitação"
        ",carteira de motorista,rijbewijs,rijbewijsnummer,prawo jazdy,prawa jazdy,körkort,körkortsnummer,kørekort"
        ",førerkort,ajokortti,ajokortin,sürücü belgesi,ehliyet,vezetői engedély,řidičský průkaz"
        ",водительское удостоверение,водительского удостоверения,права,ड्राइविंग लाइसेंस"
        ",驾驶证,駕照,駕駛執照,運転免許,免許証番号,운전면허,ใบขับขี่",
    ),
    Number(
        "",
        "",
        r"(?=[\dA-Z]*[A-Z])(?=(?:[A-Z]*\d){5})[A-HJ-NPR-Z\d]{17}",
        "vin,vehicle identification,chassis,chassis number,fahrgestellnummer,fahrgestell,fin"
        ",fahrzeug identifizierungsnummer"
        ",fahrzeugidentifizierungsnummer,châssis,numéro de châssis,bastidor,número de bastidor,telaio,numero di telaio"
        ",chassi,chassisnummer,nadwozia,numer vin,車台番号,车架号,차대번호,вин",
        "vehicle-id",
    ),
    Number("", "imei", r"\d\d~\d{6}~\d{6}~\d", "imei,imei1,imei2,imeisv", "device-id"),
)
"""All kinds. Of two that have the same label, the one whose check digits are right counts, then the longer one."""

_TYPES = ("national-id", "vehicle-id", "device-id")
_PERSONS = (
    "national id,national identity,national identification,national number,nationalid,identity number,identity card"
    ",identity document,identity no,identification number,identification card,id card,citizen id,government id"
    ",personal id,personal identification,tax id,taxid,tax number,tax identification,taxpayer id"
    ",taxpayer identification,social security,social insurance,health insurance number,health number"
    ",identifikationsnummer,identité,documento de identidad,cédula,documento d identità,número de identificación"
    ",numéro d identification,numer identyfikacyjny"
    ",आईडी,身份証,身分証"
)
"""Labels of persons' numbers that do not say of which country."""

_ANY = Number("", "", r"[A-Z]{0,4}[ -]?\d[\dA-Z]{0,16}(?:[ ./-]\d[\dA-Z]{0,8}){0,5}(?:-?[A-Z]{1,2})?", _PERSONS)
_LEAST_ANY = 6  # digits

_AMBIGUOUS = frozenset(
    """sin nie dni nif tin ein rfc cpr fin nin rg run nas nis nit cif spi nss rut pis kt sss pps social documento права
    patente dl uid eid abn ird cie pnr nhi epic""".split()  # noqa: SIM905 - words
)
"""Labels of one word that are other words, too: the check digits must be right, or the form have letters."""

_FILLERS = frozenset(
    """identifier number numbers no nr num nbr numero número numéro nummer numer n nº nro id ids code card is was
    are as the my his her your our their of for on ist lautet lauten meine mein ihre sein seine es son era mi su el
    la del de di il è mio mia suo é meu minha o a do da est mon ma sa votre jest mój moja moje to brzmi er mitt mit
    min var minun це мой моя это номер номера является karte karta carte tarjeta cartão kart nummern val value field
    nummeret numret tunnus numarası numaram numara kod kodu azonosító szám száma jel číslo uk us u k s gb fr in au
    ca and und y et e or issued new old please use dit dette deze mijn uw zijn am i m it its αριθμός αριθμος μου
    είναι ο το מספר שלי הוא هو رقم رقمي نمبر series série serie серия серии tax person personal citizen
    taxpayer""".split()  # noqa: SIM905 - words
)


class Label(NamedTuple):
    """A label that stands before a number.

    Attributes:
        numbers: the kinds that it may announce.
        end: where it ends.
        close: whether only words such as *number* and *is* stand between it and the number.
        clear: whether it says by itself that the number is a person's.
        parted: whether a sign such as a colon, or a word for a number, stands behind it.
    """

    numbers: Sequence[Number]
    end: int
    close: bool
    clear: bool
    parted: bool = False


_ASCII, _SPACE = range(128), ord(" ")
_STEM = 5  # letters by which a word that is inflected is looked up
_WORD = deferred(r"[A-Z]+(?![^\W\dA-Z_])|[A-Z]?[^\W\dA-Z_]+")
_NO_WORD = deferred(r"[\W\d_]+")
_NO_SMALL = str.maketrans(ascii_lowercase, " " * len(ascii_lowercase))
_LETTERS = bytes(code if code >= len(_ASCII) or chr(code).isalpha() else _SPACE for code in range(256))  # in UTF-8
_CLOSE, _FAR = 36, 56  # characters between a label and its number
_UNSPACED = deferred(r"[\u0900-\u0eff\u2e80-\ua4cf\uac00-\ud7a3]")  # scripts without spaces, or with marks within words
_COUNTED = frozenset({"number", "no", "nr", "num", "n", "nº", "nro", "numero", "número", "numéro", "nummer", "numer"})
_SIGN = deferred("[:=|#\\t\uff1a]")
_TAG = deferred(r"</?[A-Za-z][^<>]{0,60}>")
_BETWEEN = rf"(?:[\W_]|{_TAG.pattern}){{0,60}}"  # the words of a label
_SENTENCE = deferred(r"[a-z)][.!?]\s+[A-Z]|\n\s*\n")


class _Labels:
    """All labels, looked up by their words."""

    def __init__(self) -> None:
        self._phrases: dict[tuple[str, ...], list[Number]] = {}
        self._stems: dict[str, list[tuple[str, list[Number]]]] = {}
        self.unspaced: dict[str, list[Number]] = {}
        for number in (*_NUMBERS, _ANY):
            for label in number.labels:
                self._add(label, number)
        self._firsts: dict[str, int] = {}
        self._begun: dict[str, list[tuple[str, ...]]] = {}
        for phrase in self._phrases:
            self._firsts[phrase[0]] = max(self._firsts.get(phrase[0], 0), len(phrase))
            self._begun.setdefault(phrase[0], []).append(phrase)
        firsts = "".join({name[0] for name in self.unspaced})
        self._unspaced = re.compile(rf"[{firsts}](?<=(?={'|'.join(map(re.escape, self.unspaced))}).)")

    def none_in(self, words: Sequence[str]) -> bool:
        """Return whether no label begins with any of the words."""
        return self._firsts.keys().isdisjoint(words) and self._stems.keys().isdisjoint(word[:_STEM] for word in words)

    def starts(self, text: str) -> Mapping[str, Sequence[int]]:
        """Return the places in a text at which labels may begin, in order, by the types of their numbers."""
        words = _words_in(text)
        labels = [phrase for first in self._begun.keys() & words for phrase in self._begun[first]]
        found = [(phrase, self._phrases[phrase]) for phrase in labels if words.issuperset(phrase)]
        stems = self._stems.keys() & {word[:_STEM] for word in words}
        found += [(tuple(stem.split()), numbers) for begun in stems for stem, numbers in self._stems[begun]]
        starts: dict[str, list[int]] = {}
        read = small(text) if found else ""
        for phrase, numbers in found:
            places = [one.start() for one in _phrase(phrase).finditer(read)]
            for type in {number.type for number in numbers}:
                starts.setdefault(type, []).extend(places)
        if not text.isascii():
            for one in self._unspaced.finditer(text):
                for type in _TYPES:
                    starts.setdefault(type, []).append(one.start())
        return {type: sorted(places) for type, places in starts.items()}

    def _add(self, label: tuple[str, ...], number: Number) -> None:
        if _UNSPACED.match(label[0]):
            self.unspaced.setdefault("".join(label), []).append(number)
        elif label[-1].endswith("*"):
            stem = " ".join(label)[:-1]
            self._stems.setdefault(stem[:_STEM], []).append((stem, [number]))
        else:
            self._phrases.setdefault(label, []).append(number)

    def in_words(self, words: Sequence[str]) -> Iterator[tuple[int, int, Sequence[Number], bool]]:
        """Yield the labels among words: the index behind them, their number, the kinds, and whether it is ambiguous."""
        for at, word in enumerate(words):
            for size in range(min(self._firsts.get(word, 0), len(words) - at), 0, -1):
                numbers = self._phrases.get(tuple(words[at : at + size]))
                if numbers:
                    yield at + size, size, numbers, size == 1 and word in _AMBIGUOUS
                    break
            for stem, numbers in self._stems.get(word[:_STEM], ()):
                size = 1 + stem.count(" ")
                if " ".join(words[at : at + size]).startswith(stem):
                    yield at + size, size, numbers, False


@cache
def _labels() -> _Labels:
    return _Labels()


def may_begin_label(word: str) -> bool:
    """Return whether a label may begin with a word, in small letters."""
    return not word.isascii() or not _labels().none_in(_WORD.findall(word))


def label_starts(text: str) -> Mapping[str, Sequence[int]]:
    """Return the places in a text at which labels may begin, in order, by the types of their numbers.

    All other places have none. Rules share it.
    """
    return view_of(text, _label_starts)


def _label_starts(text: str) -> Mapping[str, Sequence[int]]:
    return _labels().starts(text)


def _words_in(text: str) -> set[str]:
    """Return the words of a text, in small letters."""
    plain = text.encode("utf-8", "surrogatepass").translate(_LETTERS).decode("utf-8", "surrogatepass")
    words = {*plain.split()}
    if not plain.isascii():
        beyond = {word for word in words if not word.isascii()}
        words = (words - beyond).union(_NO_WORD.sub(" ", " ".join(beyond)).split())
    mixed = " ".join(word for word in words if not (word.islower() or (word.isascii() and _is_of_one_part(word))))
    parts = _parts(mixed) if mixed.isascii() else _WORD.findall(mixed)
    return {*map(str.lower, words), *map(str.lower, parts)}


def _is_of_one_part(word: str) -> bool:
    return word.isupper() or word.istitle()


def _parts(words: str) -> Sequence[str]:
    """Return the words within words that have small letters and capitals: *tax* and *ID* of ``taxID``; and others."""
    capitals = words.translate(_NO_SMALL).split()
    for capital in ascii_uppercase if capitals else "":
        words = words.replace(capital, f" {capital}")
    return [*words.split(), *capitals, *(run[:-1] for run in capitals)]


@lru_cache(maxsize=256)
def _phrase(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(_BETWEEN.join(map(re.escape, words)))


def label_in(before: str) -> Label | None:
    """Return the last label in the text before a number, if the number may be meant; it has no digits."""
    labels = _labels()
    if "<" in before:  # a tag parts a label from its number, as a colon does
        before = _TAG.sub(lambda tag: ":".ljust(len(tag.group())), before)
    words = [word.lower() for word in _WORD.findall(before)]
    best: Label | None = None
    last = 0
    if not labels.none_in(words):
        found = [*_WORD.finditer(before)]
        for behind, size, numbers, ambiguous in labels.in_words(words):
            end = found[behind - 1].end()
            if best is None or end >= best.end:
                close = len(before) - end <= _CLOSE and _FILLERS.issuperset(words[behind:])
                clear = not ambiguous or found[behind - 1].group().isupper()
                label = Label(numbers, end, close, clear)
                if best is not None and _FILLERS.issuperset(words[last : behind - size]):  # two labels of one number
                    label = label._replace(numbers=[*best.numbers, *numbers], clear=clear or best.clear)
                best, last = label, behind
    if not before.isascii():
        for name, numbers in labels.unspaced.items():
            end = before.rfind(name) + len(name)
            if end >= len(name) and (best is None or end >= best.end):
                best = Label(numbers, end, len(before) - end <= _CLOSE // 3, clear=True)
    if best is None or len(before) - best.end > _FAR or _SENTENCE.search(before, best.end):
        return None
    return best._replace(parted=_SIGN.search(before, best.end) is not None or not _COUNTED.isdisjoint(words[last:]))


def number_at(text: str, at: int, label: Label) -> tuple[int, str] | None:
    """Return where the number ends that begins at a place behind a label, and its type; None if there is none."""
    best: tuple[bool, int, str] | None = None
    for number in label.numbers:
        if number is _ANY:
            continue
        found = number.form.match(text, at)
        if found is None:
            continue
        valid = number.is_valid(found.group())
        formed = any(map(str.isalpha, found.group())) if number.check else label.parted
        if valid or (label.close and (label.clear or formed)):
            best = max(best or (False, 0, ""), (valid, found.end(), number.type))
    if best is not None:
        return best[1:]
    if _ANY not in label.numbers:
        return None
    for number in _NUMBERS:
        found = number.form.match(text, at) if number.check else None
        if found and number.is_valid(found.group()):
            return found.end(), number.type
    found = _ANY.form.match(text, at) if label.close else None
    if found is None or sum(map(str.isdigit, found.group())) < _LEAST_ANY:
        return None
    return found.end(), _ANY.type


_BY_FORM = frozenset({"us.ein", "us.ssn"})  # modules that check no digit


def of_countries(countries: Container[str]) -> Sequence[Number]:
    """Return the kinds of some countries that have check digits."""
    return [number for number in _NUMBERS if number.country in countries and _has_digits(number)]


def known_countries() -> Sequence[str]:
    """Return the codes of the countries whose numbers have check digits."""
    return sorted({number.country for number in _NUMBERS if number.country and _has_digits(number)})


def _has_digits(number: Number) -> bool:
    return bool(number.check) and number.check not in _BY_FORM
